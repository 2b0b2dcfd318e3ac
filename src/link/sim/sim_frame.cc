#include "link/sim/sim_frame.h"

#include <cstring>

#include "wire/ethernet.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

namespace rrdma::link {
namespace {

constexpr std::uint8_t kEcnMask = 3;

wire::Ipv4Address ipv4_of(const wire::Gid& gid) { return {gid.ipv4()}; }
wire::Ipv6Address ipv6_of(const wire::Gid& gid) { return {gid.octets}; }

std::size_t emit_network(const objects::Path& path, std::size_t udp_octets, MutableOctets to) {
  if (path.remote.is_ipv4()) {
    wire::Ipv4Header ip;
    ip.tos = path.traffic_class;
    ip.total_length = static_cast<std::uint16_t>(wire::kIpv4Octets + udp_octets);
    ip.ttl = path.hop_limit;
    ip.source = ipv4_of(path.local);
    ip.destination = ipv4_of(path.remote);
    return wire::emit_ipv4(ip, to);
  }
  wire::Ipv6Header ip;
  ip.traffic_class = path.traffic_class;
  ip.flow_label = path.flow_label;
  ip.payload_length = static_cast<std::uint16_t>(udp_octets);
  ip.hop_limit = path.hop_limit;
  ip.source = ipv6_of(path.local);
  ip.destination = ipv6_of(path.remote);
  return wire::emit_ipv6(ip, to);
}

}  // namespace

wire::MacAddress sim_mac(std::uint32_t host) {
  return {{0x02, 0x52, 0x44, 0x4d, static_cast<std::uint8_t>(host >> 8), static_cast<std::uint8_t>(host)}};
}

void emit_sim_frame(const objects::Frame& frame, std::uint32_t from, std::uint32_t to,
                    std::vector<std::uint8_t>& octets) {
  const objects::Path& path = *frame.path;
  const bool ipv4 = path.remote.is_ipv4();
  const std::size_t transport = frame.header_octets + frame.payload_octets + frame.pad;
  const std::size_t udp = wire::kUdpOctets + transport + wire::kIcrcOctets;
  octets.resize(wire::kEthernetOctets + (ipv4 ? wire::kIpv4Octets : wire::kIpv6Octets) + udp);
  MutableOctets rest(octets);
  const auto skip = [&rest](std::size_t n) { rest = rest.subspan(n); };

  wire::EthernetHeader ethernet;
  ethernet.source = sim_mac(from);
  ethernet.destination = sim_mac(to);
  ethernet.ether_type = ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6;
  skip(wire::emit_ethernet(ethernet, rest));
  const std::size_t network_at = octets.size() - rest.size();
  skip(emit_network(path, udp, rest));
  skip(wire::emit_udp({.source = path.source_port, .length = static_cast<std::uint16_t>(udp)}, rest));

  std::memcpy(rest.data(), frame.header.data(), frame.header_octets);
  skip(frame.header_octets);
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    if (frame.spans[i].length == 0) continue;
    std::memcpy(rest.data(), frame.spans[i].data, frame.spans[i].length);
    skip(frame.spans[i].length);
  }
  std::memset(rest.data(), 0, frame.pad);
  skip(frame.pad);
  const Octets covered = Octets(octets).subspan(network_at, octets.size() - network_at - wire::kIcrcOctets);
  wire::store_icrc(rest.data(),
                   wire::icrc_of_packet(ipv4 ? wire::Network::kIpv4 : wire::Network::kIpv6, covered));
}

bool mark_congestion(MutableOctets frame) {
  MutableOctets ip = frame.subspan(wire::kEthernetOctets);
  if (ip[0] >> 4 == 4) {
    auto header = wire::parse_ipv4(ip);
    if (!header || (header->tos & kEcnMask) == 0) return false;
    header->tos |= kEcnMask;
    wire::emit_ipv4(*header, ip);
    return true;
  }
  if ((ip[1] >> 4 & kEcnMask) == 0) return false;
  ip[1] |= kEcnMask << 4;
  return true;
}

SimVerdict parse_sim_frame(Octets frame, std::uint32_t host, SimPacket& result) {
  const auto parsed = wire::parse_frame(frame);
  if (!parsed || parsed->ethernet->destination != sim_mac(host) || parsed->ethernet->vlan.has_value() ||
      parsed->udp_checksum == wire::ChecksumVerdict::kWrong) {
    return SimVerdict::kFrameRefused;
  }
  objects::PacketOrigin& origin = result.origin;
  if (const auto* ip = std::get_if<wire::Ipv4Header>(&parsed->network)) {
    origin.source = wire::gid_of(ip->source);
    origin.destination = wire::gid_of(ip->destination);
    origin.traffic_class = ip->tos;
    wire::emit_grh_area(*ip, result.grh);
  } else if (const auto* ip6 = std::get_if<wire::Ipv6Header>(&parsed->network)) {
    origin.source = wire::gid_of(ip6->source);
    origin.destination = wire::gid_of(ip6->destination);
    origin.traffic_class = ip6->traffic_class;
    wire::emit_ipv6(*ip6, result.grh);
  } else {
    return SimVerdict::kFrameRefused;
  }
  origin.ecn_marked = (origin.traffic_class & kEcnMask) == kEcnMask;
  origin.grh = result.grh.data();
  if (!parsed->icrc_right()) return SimVerdict::kIcrcRefused;
  if (wire::parse_transport(parsed->transport, result.packet) != wire::TransportError::kNone) {
    return SimVerdict::kTransportRefused;
  }
  return SimVerdict::kGood;
}

}  // namespace rrdma::link
