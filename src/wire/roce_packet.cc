#include "wire/roce_packet.h"

#include <algorithm>
#include <type_traits>

#include "base/assert.h"
#include "base/result_try.h"

namespace rrdma::wire {
namespace {

static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Network::kIpv4),
                                                        decltype(RoceFrame::network)>,
                             Ipv4Header>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Network::kIpv6),
                                                        decltype(RoceFrame::network)>,
                             Ipv6Header>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Network::kRoceV1),
                                                        decltype(RoceFrame::network)>,
                             Grh>);

using FrameResult = Result<RoceFrame, FrameError>;

// The common end of all three parsers. `packet` is from the network header to the end of the ICRC.
FrameResult with_transport(RoceFrame frame, Octets packet, std::size_t headers_octets) {
  const Octets body = packet.subspan(headers_octets);
  if (body.size() < kBthOctets + kIcrcOctets) return Failure{FrameError::kTransportTooShort};
  frame.transport = body.first(body.size() - kIcrcOctets);
  frame.icrc = load_icrc(body.data() + frame.transport.size());
  frame.icrc_expected = icrc_of_packet(frame.network_kind(), packet.first(packet.size() - kIcrcOctets));
  return frame;
}

template <typename Header>
FrameResult with_udp(RoceFrame frame, const Header& ip, Octets packet, std::size_t ip_octets) {
  const Octets datagram = packet.subspan(ip_octets);
  const auto udp = parse_udp(datagram);
  // Another port is foreign even if the lengths are inconsistent: such a packet is not ours to judge.
  if (datagram.size() >= kUdpOctets && load_be16(datagram.data() + 2) != kRoceUdpPort) {
    return Failure{FrameError::kOtherPort};
  }
  RRDMA_TRY(udp);
  frame.udp = *udp;
  if (frame.udp.checksum != 0) {
    const auto right = udp_checksum(ip.source, ip.destination, frame.udp, datagram.subspan(kUdpOctets));
    frame.udp_checksum = frame.udp.checksum == right ? ChecksumVerdict::kRight : ChecksumVerdict::kWrong;
  }
  return with_transport(std::move(frame), packet, ip_octets + kUdpOctets);
}

FrameResult parse_over_ipv4(RoceFrame frame, Octets rest) {
  const auto ip = parse_ipv4(rest);
  RRDMA_TRY(ip);
  if (ip->protocol != kIpProtocolUdp) return Failure{FrameError::kOtherProtocol};
  frame.network = *ip;
  frame.trailer = rest.subspan(ip->total_length);
  return with_udp(std::move(frame), *ip, rest.first(ip->total_length), ip->octets());
}

FrameResult parse_over_ipv6(RoceFrame frame, Octets rest) {
  const auto ip = parse_ipv6(rest);
  RRDMA_TRY(ip);
  if (ip->next_header != kIpProtocolUdp) return Failure{FrameError::kOtherProtocol};
  const std::size_t total = kIpv6Octets + ip->payload_length;
  frame.network = *ip;
  frame.trailer = rest.subspan(total);
  return with_udp(std::move(frame), *ip, rest.first(total), kIpv6Octets);
}

FrameResult parse_over_grh(RoceFrame frame, Octets rest) {
  const auto grh = parse_grh(rest);
  RRDMA_TRY(grh);
  if (grh->next_header != kNextHeaderBth) return Failure{FrameError::kOtherNextHeader};
  const std::size_t total = kGrhOctets + grh->payload_length;
  frame.network = *grh;
  frame.udp.destination = 0;
  frame.trailer = rest.subspan(total);
  return with_transport(std::move(frame), rest.first(total), kGrhOctets);
}

FrameResult parse_raw_ip(Octets packet) {
  if (packet.empty()) return Failure{FrameError::kIpTooShort};
  switch (packet.front() >> 4) {
    case 4: return parse_over_ipv4({}, packet);
    case 6: return parse_over_ipv6({}, packet);
    default: return Failure{FrameError::kIpVersion};
  }
}

}  // namespace

Result<RoceFrame, FrameError> parse_frame(Octets frame) {
  const auto ethernet = parse_ethernet(frame);
  RRDMA_TRY(ethernet);
  RoceFrame parsed;
  parsed.ethernet = *ethernet;
  const Octets rest = frame.subspan(ethernet->octets());
  switch (ethernet->ether_type) {
    case kEtherTypeIpv4: return parse_over_ipv4(parsed, rest);
    case kEtherTypeIpv6: return parse_over_ipv6(parsed, rest);
    case kEtherTypeRoceV1: return parse_over_grh(parsed, rest);
    default: return Failure{FrameError::kOtherEtherType};
  }
}

Result<RoceFrame, FrameError> parse_frame(LinkType link, Octets frame) {
  switch (link) {
    case LinkType::kEthernet: return parse_frame(frame);
    case LinkType::kRawIp: return parse_raw_ip(frame);
    case LinkType::kIpv4: return parse_over_ipv4({}, frame);
    case LinkType::kIpv6: return parse_over_ipv6({}, frame);
  }
  return Failure{FrameError::kOtherLinkType};
}

namespace {

// Network and UDP headers.
std::size_t network_octets(const RoceFrame& frame) {
  switch (frame.network_kind()) {
    case Network::kIpv4: return std::get<Ipv4Header>(frame.network).octets() + kUdpOctets;
    case Network::kIpv6: return kIpv6Octets + kUdpOctets;
    case Network::kRoceV1: return kGrhOctets;
  }
  return 0;
}

constexpr std::uint16_t length_field(std::size_t octets) {
  RRDMA_ASSERT(octets <= 0xffff);
  return static_cast<std::uint16_t>(octets);
}

// Writes the IP header or GRH with its lengths, and the UDP header without its checksum.
void emit_network(const RoceFrame& frame, MutableOctets to) {
  const std::size_t body = frame.transport.size() + kIcrcOctets;
  UdpHeader udp = frame.udp;
  udp.checksum = 0;
  switch (frame.network_kind()) {
    case Network::kIpv4: {
      Ipv4Header ip = std::get<Ipv4Header>(frame.network);
      ip.total_length = length_field(ip.octets() + kUdpOctets + body);
      udp.length = length_field(kUdpOctets + body);
      emit_udp(udp, to.subspan(emit_ipv4(ip, to)));
      return;
    }
    case Network::kIpv6: {
      Ipv6Header ip = std::get<Ipv6Header>(frame.network);
      ip.payload_length = udp.length = length_field(kUdpOctets + body);
      emit_udp(udp, to.subspan(emit_ipv6(ip, to)));
      return;
    }
    case Network::kRoceV1: {
      Grh grh = std::get<Grh>(frame.network);
      grh.payload_length = length_field(body);
      emit_grh(grh, to);
      return;
    }
  }
}

// `datagram` is from the UDP header to the end of the ICRC.
void emit_udp_checksum(const RoceFrame& frame, MutableOctets datagram) {
  UdpHeader udp = frame.udp;
  udp.length = length_field(datagram.size());
  const Octets payload = datagram.subspan(kUdpOctets);
  if (const auto* v4 = std::get_if<Ipv4Header>(&frame.network)) {
    store_be16(datagram.data() + 6, udp_checksum(v4->source, v4->destination, udp, payload));
  } else if (const auto* v6 = std::get_if<Ipv6Header>(&frame.network)) {
    store_be16(datagram.data() + 6, udp_checksum(v6->source, v6->destination, udp, payload));
  }
}

}  // namespace

std::size_t frame_octets(const RoceFrame& frame) {
  return (frame.ethernet ? frame.ethernet->octets() : 0) + network_octets(frame) + frame.transport.size() +
         kIcrcOctets + frame.trailer.size();
}

std::size_t emit_frame(const RoceFrame& frame, MutableOctets to) {
  RRDMA_ASSERT(frame.transport.size() >= kBthOctets && to.size() >= frame_octets(frame));
  const std::size_t link_octets = frame.ethernet ? emit_ethernet(*frame.ethernet, to) : 0;
  const std::size_t headers_octets = network_octets(frame);
  const std::size_t covered = headers_octets + frame.transport.size();
  const MutableOctets packet = to.subspan(link_octets, covered + kIcrcOctets);
  emit_network(frame, packet);
  std::copy(frame.transport.begin(), frame.transport.end(), packet.data() + headers_octets);
  store_icrc(packet.data() + covered, icrc_of_packet(frame.network_kind(), packet.first(covered)));
  if (frame.network_kind() != Network::kRoceV1 && frame.udp.checksum != 0) {
    emit_udp_checksum(frame, packet.subspan(headers_octets - kUdpOctets));
  }
  std::copy(frame.trailer.begin(), frame.trailer.end(), packet.data() + packet.size());
  return frame_octets(frame);
}

}  // namespace rrdma::wire
