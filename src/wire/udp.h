// UDP headers, and the checksum over the pseudo-header of either family. RoCE v2 usually sends checksum 0
// (none), also on IPv6. A real checksum is equally valid, since the ICRC does not cover the field. A wrong
// checksum is reported, not refused: captures on the sending host show it before it is filled in.
//
//   source(16) destination(16) | length(16) checksum(16)
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/frame_error.h"

namespace rrdma::wire {

inline constexpr std::size_t kUdpOctets = 8;
inline constexpr std::uint16_t kRoceUdpPort = 4791;

struct UdpHeader {
  std::uint16_t source = 0;
  std::uint16_t destination = kRoceUdpPort;
  std::uint16_t length = 0;    // this header and everything behind it
  std::uint16_t checksum = 0;  // 0: none
  friend bool operator==(const UdpHeader&, const UdpHeader&) = default;
};

// `datagram` is exactly the payload of the IP packet; the length field must match it.
[[nodiscard]] Result<UdpHeader, FrameError> parse_udp(Octets datagram);

// Writes kUdpOctets bytes as they are in the value, and returns that number. REQUIRES: room for them.
std::size_t emit_udp(const UdpHeader& header, MutableOctets to);

// The checksum for `header` (its checksum field is ignored); never 0, which means none.
[[nodiscard]] std::uint16_t udp_checksum(const Ipv4Address& source, const Ipv4Address& destination,
                                         const UdpHeader& header, Octets payload);
[[nodiscard]] std::uint16_t udp_checksum(const Ipv6Address& source, const Ipv6Address& destination,
                                         const UdpHeader& header, Octets payload);

}  // namespace rrdma::wire
