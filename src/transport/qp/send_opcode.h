// Properties of a send operation: its kind of completion, and the wire opcode of each packet.
#pragma once

#include <cstdint>
#include <span>

#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/qp/attributes.h"
#include "wire/opcode.h"

namespace rrdma::transport {

inline constexpr std::uint32_t kAtomicOctets = 8;

// READ, ATOMIC, FLUSH and ATOMIC WRITE complete by a response of their own, not by an ACK.
constexpr bool awaits_response(objects::SendOpcode opcode) {
  using objects::SendOpcode;
  return opcode == SendOpcode::kRead || opcode == SendOpcode::kCompareSwap ||
         opcode == SendOpcode::kFetchAdd || opcode == SendOpcode::kFlush ||
         opcode == SendOpcode::kAtomicWrite;
}

// Operations on one 8-byte word: the two ATOMICs and ATOMIC WRITE.
constexpr bool is_atomic(objects::SendOpcode opcode) {
  using objects::SendOpcode;
  return opcode == SendOpcode::kCompareSwap || opcode == SendOpcode::kFetchAdd ||
         opcode == SendOpcode::kAtomicWrite;
}

// They take no PSN.
constexpr bool is_local(objects::SendOpcode opcode) {
  using objects::SendOpcode;
  return opcode == SendOpcode::kBindWindow || opcode == SendOpcode::kLocalInvalidate ||
         opcode == SendOpcode::kRenewRegion;
}

// Whether the QP type has the operation.
constexpr bool supports(QpType type, objects::SendOpcode opcode) {
  using objects::SendOpcode;
  switch (opcode) {
    case SendOpcode::kSend:
    case SendOpcode::kSendImmediate: return type != QpType::kXrcReceive;
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImmediate:
    case SendOpcode::kBindWindow:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kRenewRegion:
      return type == QpType::kRc || type == QpType::kUc || type == QpType::kXrcSend;
    default: return type == QpType::kRc || type == QpType::kXrcSend;
  }
}

// Local operations carry no message.
inline std::uint32_t message_length(const objects::SendEntry& entry, std::span<const objects::Sge> list) {
  if (is_local(entry.opcode)) return 0;
  // A FLUSH has no list: its length is that of the range at the other side.
  return entry.opcode == objects::SendOpcode::kFlush
             ? entry.length
             : static_cast<std::uint32_t>(objects::total_length(list));
}

// FIRST/MIDDLE/LAST/ONLY of SEND and WRITE, with the immediate or invalidate that the last packet carries.
constexpr wire::Step data_step(objects::SendOpcode opcode, bool first, bool last) {
  using objects::SendOpcode;
  using wire::Step;
  const bool write = opcode == SendOpcode::kWrite || opcode == SendOpcode::kWriteImmediate;
  if (!last) {
    return write ? (first ? Step::kWriteFirst : Step::kWriteMiddle)
                 : (first ? Step::kSendFirst : Step::kSendMiddle);
  }
  switch (opcode) {
    case SendOpcode::kWrite: return first ? Step::kWriteOnly : Step::kWriteLast;
    case SendOpcode::kWriteImmediate: return first ? Step::kWriteOnlyImmediate : Step::kWriteLastImmediate;
    case SendOpcode::kSendImmediate: return first ? Step::kSendOnlyImmediate : Step::kSendLastImmediate;
    case SendOpcode::kSendInvalidate: return first ? Step::kSendOnlyInvalidate : Step::kSendLastInvalidate;
    default: return first ? Step::kSendOnly : Step::kSendLast;
  }
}

}  // namespace rrdma::transport
