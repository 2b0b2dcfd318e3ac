// TransportPacket: everything from the BTH to the end of the pad as one validated value. Raw bytes become
// types here; no higher layer reads a header byte again. The ICRC belongs to the surrounding network headers
// (icrc.h) and is not part of this value.
#pragma once

#include <string_view>

#include "base/octets.h"
#include "wire/headers.h"

namespace rrdma::wire {

// The headers of one packet. shape_of(bth.opcode) tells which of them are present; the others are zero.
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

  void clear_behind_bth() {
    deth = {};
    xrceth = {};
    feth = {};
    reth = {};
    atomic = {};
    aeth = {};
    atomic_ack = {};
    immediate = {};
    invalidate = {};
  }
  friend bool operator==(const TransportHeaders&, const TransportHeaders&) = default;
};

struct TransportPacket {
  TransportHeaders headers;
  Octets payload;  // without pad; points into the input
};

enum class TransportError : std::uint8_t {
  kNone,
  kTooShort,          // shorter than a BTH, or than the headers that its opcode requires
  kUnknownOpcode,     // reserved, or of an unsupported transport
  kUnknownVersion,    // TVer is not 0
  kPadBeyondPayload,  // more pad than bytes after the headers
  kNotPadded,         // the bytes after the headers are not a multiple of four
  kPayloadLength,     // not permitted by the opcode (the receiver checks the path MTU)
};
std::string_view describe(TransportError error);

// Parses `octets` (from the BTH through the pad, without the ICRC) into `packet`. On error, `packet` is
// unspecified.
[[nodiscard]] TransportError parse_transport(Octets octets, TransportPacket& packet);

// Parses only the headers, for frames whose payload is stored elsewhere. `octets` holds at least the headers.
[[nodiscard]] TransportError parse_transport_headers(Octets octets, TransportHeaders& headers);

// Whether an opcode with this rule permits this payload length (the receiver checks the path MTU).
[[nodiscard]] bool payload_allowed(PayloadRule rule, std::size_t length);

// Writes the headers and returns their length (shape_of(opcode).header_octets). REQUIRES: a known opcode, and
// room for kHeaderOctetsMax bytes.
std::size_t emit_transport_headers(const TransportHeaders& headers, std::uint8_t* to);

// The number of pad bytes behind a payload of this length.
constexpr std::uint8_t pad_for(std::size_t payload_length) {
  return static_cast<std::uint8_t>(-payload_length & 3);
}

}  // namespace rrdma::wire
