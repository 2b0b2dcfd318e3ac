// What the operation of a request implies.
#pragma once

#include <cstdint>

#include "objects/work_queue.h"

namespace rrdma::transport {

inline constexpr std::uint32_t kAtomicOctets = 8;

// READ, ATOMIC, FLUSH and ATOMIC WRITE complete by a response of their own, not by an ACK.
constexpr bool awaits_response(objects::SendOpcode opcode) {
  using objects::SendOpcode;
  return opcode == SendOpcode::kRead || opcode == SendOpcode::kCompareSwap ||
         opcode == SendOpcode::kFetchAdd || opcode == SendOpcode::kFlush ||
         opcode == SendOpcode::kAtomicWrite;
}

// One word of eight octets: the two ATOMICs and ATOMIC WRITE.
constexpr bool is_atomic(objects::SendOpcode opcode) {
  using objects::SendOpcode;
  return opcode == SendOpcode::kCompareSwap || opcode == SendOpcode::kFetchAdd ||
         opcode == SendOpcode::kAtomicWrite;
}

// Bind and local invalidate take no PSN.
constexpr bool is_local(objects::SendOpcode opcode) {
  return opcode == objects::SendOpcode::kBindWindow || opcode == objects::SendOpcode::kLocalInvalidate;
}

}  // namespace rrdma::transport
