#include "wire/grh.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace rrdma::wire {

Result<Grh, FrameError> parse_grh(Octets packet) {
  if (packet.size() < kGrhOctets) return Failure{FrameError::kIpTooShort};
  const std::uint8_t* p = packet.data();
  const std::uint32_t first = load_be32(p);
  if (first >> 28 != 6) return Failure{FrameError::kIpVersion};
  Grh grh;
  grh.traffic_class = static_cast<std::uint8_t>(first >> 20);
  grh.flow_label = first & 0xfffff;
  grh.payload_length = load_be16(p + 4);
  grh.next_header = p[6];
  grh.hop_limit = p[7];
  std::copy_n(p + 8, 16, grh.source.octets.data());
  std::copy_n(p + 24, 16, grh.destination.octets.data());
  if (grh.payload_length > packet.size() - kGrhOctets) return Failure{FrameError::kIpLengthBeyondFrame};
  return grh;
}

std::size_t emit_grh(const Grh& grh, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= kGrhOctets);
  std::uint8_t* p = to.data();
  store_be32(p, 6U << 28 | static_cast<std::uint32_t>(grh.traffic_class) << 20 | (grh.flow_label & 0xfffff));
  store_be16(p + 4, grh.payload_length);
  p[6] = grh.next_header;
  p[7] = grh.hop_limit;
  std::copy_n(grh.source.octets.data(), 16, p + 8);
  std::copy_n(grh.destination.octets.data(), 16, p + 24);
  return kGrhOctets;
}

std::size_t emit_grh_area(const Ipv4Header& header, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= kGrhOctets);
  Ipv4Header plain = header;
  plain.options_octets = 0;
  std::fill_n(to.data(), kGrhOctets - kIpv4Octets, std::uint8_t{0});
  emit_ipv4(plain, to.subspan(kGrhOctets - kIpv4Octets));
  return kGrhOctets;
}

void emit_grh_area(const UnseenIpHeader& header, MutableOctets to) {
  const std::size_t udp_octets = kUdpOctets + header.datagram_octets;
  if (header.source.is_ipv4() && header.destination.is_ipv4()) {
    const Ipv4Header ip{.tos = header.traffic_class,
                        .total_length = static_cast<std::uint16_t>(kIpv4Octets + udp_octets),
                        .identification = header.identification,
                        .ttl = header.hop_limit,
                        .source = {header.source.ipv4()},
                        .destination = {header.destination.ipv4()}};
    emit_grh_area(ip, to);
    return;
  }
  const Ipv6Header ip{.traffic_class = header.traffic_class,
                      .flow_label = header.flow_label & kFlowLabelMask,
                      .payload_length = static_cast<std::uint16_t>(udp_octets),
                      .hop_limit = header.hop_limit,
                      .source = {header.source.octets},
                      .destination = {header.destination.octets}};
  emit_ipv6(ip, to);
}

}  // namespace rrdma::wire
