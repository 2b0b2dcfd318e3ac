#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace rrdma {

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "rrdma: internal error at %s:%d: %s\n", file, line, expression);
  std::abort();
}

}  // namespace rrdma
