// RRDMA_ASSERT checks our own invariants. It is enabled in every build: a broken invariant must stop the
// program before it corrupts user memory. Bad packets, peers and callers never trigger it; their errors are
// returned (see Result).
#pragma once

namespace rrdma {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace rrdma

#define RRDMA_ASSERT(expression)                      \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? static_cast<void>(0)                         \
       : ::rrdma::assertion_failed(#expression, __FILE__, __LINE__))
