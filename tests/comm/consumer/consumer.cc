// A program that uses only the installed library: prints the device that it would use.
#include <rrdma/comm/context.h>

#include <cstdio>

int main() {
  auto context = rrdma::comm::Context::open();
  if (!context) return std::fprintf(stderr, "%s\n", context.error().what().c_str()), 1;
  std::puts(context->device().name.c_str());
}
