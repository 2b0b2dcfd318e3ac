// IPv6 headers. Extension headers are refused with a reason: RoCE v2 puts UDP directly behind the IPv6
// header, and the ICRC covers nothing in between.
//
//   version(4)=6 traffic-class(8) flow-label(20) | payload-length(16) next-header(8) hop-limit(8) |
//   source(128) | destination(128)
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/frame_error.h"

namespace rrdma::wire {

inline constexpr std::size_t kIpv6Octets = 40;
inline constexpr std::uint32_t kFlowLabelMask = 0xfffff;

struct Ipv6Header {
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_length = 0;  // everything behind this header
  std::uint8_t next_header = 17;     // UDP
  std::uint8_t hop_limit = 64;
  Ipv6Address source;
  Ipv6Address destination;
  friend bool operator==(const Ipv6Header&, const Ipv6Header&) = default;
};

// `packet` starts at the header and may extend beyond the payload length (Ethernet padding).
[[nodiscard]] Result<Ipv6Header, FrameError> parse_ipv6(Octets packet);

// Writes kIpv6Octets bytes and returns that number. REQUIRES: room for them.
std::size_t emit_ipv6(const Ipv6Header& header, MutableOctets to);

}  // namespace rrdma::wire
