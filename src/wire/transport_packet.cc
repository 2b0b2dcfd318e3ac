#include "wire/transport_packet.h"

#include "base/assert.h"
#include "wire/bth_words.h"

namespace rrdma::wire {

bool payload_allowed(PayloadRule rule, std::size_t length) {
  switch (rule) {
    case PayloadRule::kNone: return length == 0;
    case PayloadRule::kFull:
    case PayloadRule::kOneToFull: return length > 0;
    case PayloadRule::kUpToFull: return true;
    case PayloadRule::kEight: return length == 8;
    case PayloadRule::kSixteen: return length == 16;
  }
  return false;
}

std::string_view describe(TransportError error) {
  switch (error) {
    case TransportError::kNone: return "ok";
    case TransportError::kTooShort: return "shorter than the headers of its opcode";
    case TransportError::kUnknownOpcode: return "reserved or unsupported opcode";
    case TransportError::kUnknownVersion: return "transport header version is not 0";
    case TransportError::kPadBeyondPayload: return "pad count exceeds the payload";
    case TransportError::kNotPadded: return "payload and pad are not a multiple of four bytes";
    case TransportError::kPayloadLength: return "payload length not allowed for this opcode";
  }
  return "unknown error";
}

TransportError parse_transport_headers(Octets octets, TransportHeaders& headers) {
  if (octets.size() < kBthOctets) return TransportError::kTooShort;
  const std::uint8_t* p = octets.data();
  parse_bth_words(p, headers.bth);
  const OpcodeShape& shape = shape_of(headers.bth.opcode);
  if (!shape.known()) return TransportError::kUnknownOpcode;
  if (headers.bth.version != 0) return TransportError::kUnknownVersion;
  if (octets.size() < shape.header_octets) return TransportError::kTooShort;
  if (shape.header_octets == kBthOctets) {  // most packets
    headers.clear_behind_bth();
    return TransportError::kNone;
  }

  p += kBthOctets;
  headers.deth = shape.deth ? parse_deth(p) : Deth{};
  p += shape.deth ? kDethOctets : 0;
  headers.xrceth = shape.xrceth ? parse_xrceth(p) : XrcEth{};
  p += shape.xrceth ? kXrcEthOctets : 0;
  headers.feth = shape.feth ? parse_feth(p) : Feth{};
  p += shape.feth ? kFethOctets : 0;
  headers.reth = shape.reth ? parse_reth(p) : Reth{};
  p += shape.reth ? kRethOctets : 0;
  headers.atomic = shape.atomic_eth ? parse_atomic_eth(p) : AtomicEth{};
  p += shape.atomic_eth ? kAtomicEthOctets : 0;
  headers.aeth = shape.aeth ? parse_aeth(p) : Aeth{};
  p += shape.aeth ? kAethOctets : 0;
  headers.atomic_ack = shape.atomic_ack_eth ? parse_atomic_ack_eth(p) : AtomicAckEth{};
  p += shape.atomic_ack_eth ? kAtomicAckEthOctets : 0;
  headers.immediate = shape.immediate ? parse_immediate(p) : Immediate{};
  p += shape.immediate ? kImmediateOctets : 0;
  headers.invalidate = shape.invalidate ? parse_ieth(p) : RKey{};
  return TransportError::kNone;
}

TransportError parse_transport(Octets octets, TransportPacket& packet) {
  if (const auto error = parse_transport_headers(octets, packet.headers); error != TransportError::kNone)
    return error;
  const OpcodeShape& shape = shape_of(packet.headers.bth.opcode);
  const std::size_t rest = octets.size() - shape.header_octets;
  const std::size_t pad = packet.headers.bth.pad;
  if (pad > rest) return TransportError::kPadBeyondPayload;
  if (rest % 4 != 0) return TransportError::kNotPadded;
  const std::size_t length = rest - pad;
  if (!payload_allowed(shape.payload, length)) return TransportError::kPayloadLength;
  packet.payload = octets.subspan(shape.header_octets, length);
  return TransportError::kNone;
}

std::size_t emit_transport_headers(const TransportHeaders& headers, std::uint8_t* to) {
  const OpcodeShape& shape = shape_of(headers.bth.opcode);
  RRDMA_ASSERT(shape.known());
  emit_bth(headers.bth, to);
  std::uint8_t* p = to + kBthOctets;
  if (shape.deth) emit_deth(headers.deth, p), p += kDethOctets;
  if (shape.xrceth) emit_xrceth(headers.xrceth, p), p += kXrcEthOctets;
  if (shape.feth) emit_feth(headers.feth, p), p += kFethOctets;
  if (shape.reth) emit_reth(headers.reth, p), p += kRethOctets;
  if (shape.atomic_eth) emit_atomic_eth(headers.atomic, p), p += kAtomicEthOctets;
  if (shape.aeth) emit_aeth(headers.aeth, p), p += kAethOctets;
  if (shape.atomic_ack_eth) emit_atomic_ack_eth(headers.atomic_ack, p), p += kAtomicAckEthOctets;
  if (shape.immediate) emit_immediate(headers.immediate, p), p += kImmediateOctets;
  if (shape.invalidate) emit_ieth(headers.invalidate, p), p += kIethOctets;
  RRDMA_ASSERT(p == to + shape.header_octets);
  return shape.header_octets;
}

}  // namespace rrdma::wire
