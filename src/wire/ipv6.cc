#include "wire/ipv6.h"

#include <algorithm>

#include "base/assert.h"

namespace rrdma::wire {
namespace {

// The protocol numbers that IANA lists as IPv6 extension headers.
constexpr bool is_extension_header(std::uint8_t next_header) {
  switch (next_header) {
    case 0:    // hop-by-hop options
    case 43:   // routing
    case 44:   // fragment
    case 50:   // encapsulating security payload
    case 51:   // authentication
    case 60:   // destination options
    case 135:  // mobility
    case 139:  // host identity
    case 140:  // shim6
    case 253:  // experiments
    case 254: return true;
    default: return false;
  }
}

}  // namespace

Result<Ipv6Header, FrameError> parse_ipv6(Octets packet) {
  if (packet.size() < kIpv6Octets) return Failure{FrameError::kIpTooShort};
  const std::uint8_t* p = packet.data();
  const std::uint32_t first = load_be32(p);
  if (first >> 28 != 6) return Failure{FrameError::kIpVersion};
  Ipv6Header header;
  header.traffic_class = static_cast<std::uint8_t>(first >> 20);
  header.flow_label = first & kFlowLabelMask;
  header.payload_length = load_be16(p + 4);
  header.next_header = p[6];
  header.hop_limit = p[7];
  std::copy_n(p + 8, 16, header.source.octets.data());
  std::copy_n(p + 24, 16, header.destination.octets.data());
  if (header.payload_length > packet.size() - kIpv6Octets) return Failure{FrameError::kIpLengthBeyondFrame};
  if (is_extension_header(header.next_header)) return Failure{FrameError::kIpExtensionHeader};
  return header;
}

std::size_t emit_ipv6(const Ipv6Header& header, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= kIpv6Octets);
  std::uint8_t* p = to.data();
  store_be32(p, 6U << 28 | static_cast<std::uint32_t>(header.traffic_class) << 20 |
                    (header.flow_label & kFlowLabelMask));
  store_be16(p + 4, header.payload_length);
  p[6] = header.next_header;
  p[7] = header.hop_limit;
  std::copy_n(header.source.octets.data(), 16, p + 8);
  std::copy_n(header.destination.octets.data(), 16, p + 24);
  return kIpv6Octets;
}

}  // namespace rrdma::wire
