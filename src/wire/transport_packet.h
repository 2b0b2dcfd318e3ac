// TransportPacket: everything from the BTH to the end of the pad as one validated value. This is the
// edge at which octets become types; nothing above reads a header octet again. The ICRC belongs to the
// network around it (icrc.h) and is not part of this value.
#pragma once

#include <string_view>

#include "base/octets.h"
#include "wire/headers.h"

namespace rrdma::wire {

// The headers of one packet. Which of them are present is shape_of(bth.opcode); the others are zero.
struct TransportHeaders {
  Bth bth;
  Deth deth;
  XrcEth xrceth;
  Feth feth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  AtomicAckEth atomic_ack;
  Immediate immediate;
  RKey invalidate;
  friend bool operator==(const TransportHeaders&, const TransportHeaders&) = default;
};

struct TransportPacket {
  TransportHeaders headers;
  Octets payload;  // without pad; points into the octets that were parsed
};

enum class TransportError : std::uint8_t {
  kNone,
  kTooShort,          // shorter than a BTH, or than the headers that its opcode demands
  kUnknownOpcode,     // reserved, or of a transport that RRDMA does not speak
  kUnknownVersion,    // TVer is not 0
  kPadBeyondPayload,  // more pad than octets after the headers
  kNotPadded,         // the octets after the headers are not a multiple of four
  kPayloadLength,     // the opcode allows no such payload (the path MTU is judged by the receiver)
};
std::string_view describe(TransportError error);

// Reads `octets` (BTH up to and with the pad, the ICRC cut off) into `packet`. On an error `packet` is unspecified.
[[nodiscard]] TransportError parse_transport(Octets octets, TransportPacket& packet);

// Reads the headers only: for frames whose payload lies elsewhere. `octets` holds at least the headers.
[[nodiscard]] TransportError parse_transport_headers(Octets octets, TransportHeaders& headers);

// Whether an opcode with this rule may carry so much payload (the path MTU is judged by the receiver).
[[nodiscard]] bool payload_allowed(PayloadRule rule, std::size_t length);

// Writes the headers and returns how many octets they take (shape_of(opcode).header_octets).
// REQUIRES: a known opcode, and room for kHeaderOctetsMax octets.
std::size_t emit_transport_headers(const TransportHeaders& headers, std::uint8_t* to);

// How many pad octets follow a payload of this length.
constexpr std::uint8_t pad_for(std::size_t payload_length) {
  return static_cast<std::uint8_t>(-payload_length & 3);
}

}  // namespace rrdma::wire
