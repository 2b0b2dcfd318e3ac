// A program that uses only the installed library: prints the device that it would use. `consumer hardware`
// refuses the software device.
#include <rrdma/comm/context.h>

#include <cstdio>

int main(int count, char**) {
  rrdma::comm::ContextOptions options;
  options.software_device = count == 1;
  auto context = rrdma::comm::Context::open(options);
  if (!context) return std::fprintf(stderr, "%s\n", context.error().what().c_str()), 1;
  std::puts(context->device().name.c_str());
}
