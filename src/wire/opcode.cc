#include "wire/opcode.h"

#include <string>

namespace rrdma::wire {
namespace {

std::string_view step_name(Step step) {
  switch (step) {
    case Step::kSendFirst: return "SEND FIRST";
    case Step::kSendMiddle: return "SEND MIDDLE";
    case Step::kSendLast: return "SEND LAST";
    case Step::kSendLastImmediate: return "SEND LAST WITH IMMEDIATE";
    case Step::kSendOnly: return "SEND ONLY";
    case Step::kSendOnlyImmediate: return "SEND ONLY WITH IMMEDIATE";
    case Step::kWriteFirst: return "RDMA WRITE FIRST";
    case Step::kWriteMiddle: return "RDMA WRITE MIDDLE";
    case Step::kWriteLast: return "RDMA WRITE LAST";
    case Step::kWriteLastImmediate: return "RDMA WRITE LAST WITH IMMEDIATE";
    case Step::kWriteOnly: return "RDMA WRITE ONLY";
    case Step::kWriteOnlyImmediate: return "RDMA WRITE ONLY WITH IMMEDIATE";
    case Step::kReadRequest: return "RDMA READ REQUEST";
    case Step::kReadResponseFirst: return "RDMA READ RESPONSE FIRST";
    case Step::kReadResponseMiddle: return "RDMA READ RESPONSE MIDDLE";
    case Step::kReadResponseLast: return "RDMA READ RESPONSE LAST";
    case Step::kReadResponseOnly: return "RDMA READ RESPONSE ONLY";
    case Step::kAcknowledge: return "ACKNOWLEDGE";
    case Step::kAtomicAcknowledge: return "ATOMIC ACKNOWLEDGE";
    case Step::kCompareSwap: return "COMPARE SWAP";
    case Step::kFetchAdd: return "FETCH ADD";
    case Step::kSendLastInvalidate: return "SEND LAST WITH INVALIDATE";
    case Step::kSendOnlyInvalidate: return "SEND ONLY WITH INVALIDATE";
    case Step::kFlush: return "FLUSH";
    case Step::kAtomicWrite: return "ATOMIC WRITE";
  }
  return "";
}

// Built once for all 256 opcodes; the names live as long as the program.
const std::array<std::string, 256>& all_names() {
  static const std::array<std::string, 256> names = [] {
    std::array<std::string, 256> built;
    constexpr char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 256; ++i) {
      const Opcode opcode(static_cast<std::uint8_t>(i));
      if (opcode == kCongestionNotification) {
        built[i] = "CNP";
      } else if (opcode == kArrivalMap) {
        built[i] = "RRDMA ARRIVALS";
      } else if (shape_of(opcode).known()) {
        built[i] =
            std::string(transport_name(opcode.transport())) + " " + std::string(step_name(opcode.step()));
      } else {
        built[i] = std::string("reserved 0x") + digits[i >> 4] + digits[i & 15];
      }
    }
    return built;
  }();
  return names;
}

}  // namespace

std::string_view transport_name(Transport transport) {
  switch (transport) {
    case Transport::kReliableConnection: return "RC";
    case Transport::kUnreliableConnection: return "UC";
    case Transport::kReliableDatagram: return "RD";
    case Transport::kUnreliableDatagram: return "UD";
    case Transport::kCongestion: return "CNP";
    case Transport::kExtendedReliableConnection: return "XRC";
  }
  return "reserved";
}

std::string_view opcode_name(Opcode opcode) { return all_names()[opcode.value]; }

}  // namespace rrdma::wire
