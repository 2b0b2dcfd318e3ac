// serve() of a build without the kernel's door: `make demo` leaves it out to build faster.
#include <cstdio>

#include "kernel/door/serve.h"

namespace rrdma::kernel {

int serve(const std::string& /*device*/) {
  std::fputs("rrdmad: built by `make demo`, without --kernel. Run `make build` for the whole daemon.\n",
             stderr);
  return 1;
}

}  // namespace rrdma::kernel
