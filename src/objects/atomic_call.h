// RDMA's compare-and-swap and fetch-and-add on memory of this process. They use the CPU's own
// instructions, so they are atomic with respect to all processes that do the same.
#pragma once

#include <cstdint>

#include "base/guarded_copy.h"

namespace rrdma::objects {

struct AtomicCall {
  std::uint64_t* target;  // aligned
  bool swap;              // compare and swap; otherwise add `operand`
  std::uint64_t operand;
  std::uint64_t compare;
  std::uint64_t original;  // the value found

  // The value that the operation leaves behind if it finds `found`.
  [[nodiscard]] std::uint64_t result(std::uint64_t found) const {
    if (!swap) return found + operand;
    return found == compare ? operand : found;
  }
};

// Runs under the fault guard: the page may be unmapped.
RRDMA_MAY_FAULT inline void run_atomic(void* argument) {
  auto& call = *static_cast<AtomicCall*>(argument);
  if (call.swap) {
    call.original = call.compare;
    __atomic_compare_exchange_n(call.target, &call.original, call.operand, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
  } else {
    call.original = __atomic_fetch_add(call.target, call.operand, __ATOMIC_SEQ_CST);
  }
}

}  // namespace rrdma::objects
