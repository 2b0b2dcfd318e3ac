// RRDMA_ASSERT: our own mistakes. Always on, in every build: a broken invariant must stop the
// program before it corrupts somebody's memory. Mistakes of a packet, a peer or a caller are never
// asserted; they are returned (see Result).
#pragma once

namespace rrdma {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace rrdma

#define RRDMA_ASSERT(expression)                      \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? static_cast<void>(0)                         \
       : ::rrdma::assertion_failed(#expression, __FILE__, __LINE__))
