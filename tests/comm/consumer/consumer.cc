// A program of somebody who has the installed library only: says which device it would use.
#include <rrdma/comm/context.h>

#include <cstdio>

int main() {
  auto context = rrdma::comm::Context::open();
  if (!context) return std::fprintf(stderr, "%s\n", context.error().what().c_str()), 1;
  std::puts(context->device().name.c_str());
}
