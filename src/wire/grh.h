// The global route header of RoCE v1, and the 40 bytes before a received datagram that programs call the GRH
// area. The layout is that of an IPv6 header; a BTH follows it (next header 0x1b). Over RoCE v2 the area
// holds the IPv6 header, or 20 zero bytes and the IPv4 header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/frame_error.h"
#include "wire/ipv4.h"

namespace rrdma::wire {

inline constexpr std::size_t kGrhOctets = 40;
inline constexpr std::uint8_t kNextHeaderBth = 0x1b;

struct Grh {
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_length = 0;  // from the BTH to the end of the ICRC
  std::uint8_t next_header = kNextHeaderBth;
  std::uint8_t hop_limit = 64;
  Gid source;
  Gid destination;
  friend bool operator==(const Grh&, const Grh&) = default;
};

// `packet` starts at the header and may extend beyond the payload length (Ethernet padding).
[[nodiscard]] Result<Grh, FrameError> parse_grh(Octets packet);

// Writes kGrhOctets bytes and returns that number. REQUIRES: room for them.
std::size_t emit_grh(const Grh& grh, MutableOctets to);

// The GRH area of a datagram received over IPv4: kGrhOctets bytes, the IPv4 header (without options) in the
// last 20. REQUIRES: room for them.
std::size_t emit_grh_area(const Ipv4Header& header, MutableOctets to);

// The known facts about a datagram without its IP header: a socket delivers only the payload, and local
// delivery has no header.
struct UnseenIpHeader {
  Gid source;
  Gid destination;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;      // IPv6
  std::uint16_t identification = 0;  // IPv4
  std::size_t datagram_octets = 0;   // from the BTH to the end of the ICRC
};
// The GRH area with that header reconstructed. REQUIRES: room for kGrhOctets.
void emit_grh_area(const UnseenIpHeader& header, MutableOctets to);

}  // namespace rrdma::wire
