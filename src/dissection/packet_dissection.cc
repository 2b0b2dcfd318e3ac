#include "dissection/packet_dissection.h"

#include <algorithm>

#include "base/format.h"

namespace rrdma::wire {
namespace {

// Linux "cooked" captures (tcpdump -i any): a pseudo header precedes the network header.
constexpr auto kLinuxCooked = static_cast<LinkType>(113);
constexpr auto kLinuxCooked2 = static_cast<LinkType>(276);
constexpr std::size_t kCookedOctets = 16;
constexpr std::size_t kCooked2Octets = 20;

// No link carries a longer packet: an IP packet of 64 KiB and room for the headers before it.
constexpr std::size_t kOriginalOctetsMax = 65536 + 256;

// The network layer of a captured packet, not yet validated.
struct NetworkLayer {
  std::uint16_t ether_type = 0;  // 0: neither IP nor RoCE v1
  Octets octets;
};

NetworkLayer raw_ip_layer(Octets octets) {
  if (octets.empty()) return {};
  const unsigned version = octets.front() >> 4;
  return {version == 4 ? kEtherTypeIpv4 : version == 6 ? kEtherTypeIpv6 : std::uint16_t{0}, octets};
}

NetworkLayer network_layer(LinkType link, Octets octets) {
  switch (link) {
    case LinkType::kEthernet: {
      const auto ethernet = parse_ethernet(octets);
      if (!ethernet) return {};
      return {ethernet->ether_type, octets.subspan(ethernet->octets())};
    }
    case LinkType::kRawIp: return raw_ip_layer(octets);
    case LinkType::kIpv4: return {kEtherTypeIpv4, octets};
    case LinkType::kIpv6: return {kEtherTypeIpv6, octets};
    default: return {};
  }
}

bool goes_to_roce_port(Octets udp) { return udp.size() >= 4 && load_be16(udp.data() + 2) == kRoceUdpPort; }

// A header length below the minimum is an error; use the minimum to find what follows.
std::size_t ipv4_header_octets(Octets ip) {
  return std::clamp(std::size_t{4} * (ip[0] & 0xf), kIpv4Octets, ip.size());
}

bool is_later_fragment(Octets ipv4) { return (load_be16(ipv4.data() + 6) & 0x1fff) != 0; }

bool ipv4_may_be_roce(Octets ip) {
  if (ip.size() < kIpv4Octets) return true;
  if (ip[9] != kIpProtocolUdp) return false;
  return !is_later_fragment(ip) && goes_to_roce_port(ip.subspan(ipv4_header_octets(ip)));
}

// Skips the extension headers that may precede UDP.
bool ipv6_may_be_roce(Octets ip) {
  if (ip.size() < kIpv6Octets) return true;
  constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kFragment = 44, kDestinationOptions = 60;
  std::uint8_t next = ip[6];
  Octets rest = ip.subspan(kIpv6Octets);
  while (next == kHopByHop || next == kRouting || next == kFragment || next == kDestinationOptions) {
    if (rest.size() < 8) return false;
    if (next == kFragment && (load_be16(rest.data() + 2) & 0xfff8) != 0) return false;
    const std::size_t octets = next == kFragment ? 8 : 8 + std::size_t{8} * rest[1];
    if (rest.size() < octets) return false;
    next = rest[0];
    rest = rest.subspan(octets);
  }
  return next == kIpProtocolUdp && goes_to_roce_port(rest);
}

// parse_frame() checks headers from the outside in, so an error in an outer header hides that the packet is
// not RoCE. This function looks only at the fields that identify RoCE.
bool may_be_roce(const NetworkLayer& layer) {
  switch (layer.ether_type) {
    case kEtherTypeIpv4: return ipv4_may_be_roce(layer.octets);
    case kEtherTypeIpv6: return ipv6_may_be_roce(layer.octets);
    case kEtherTypeRoceV1: return true;
    default: return false;
  }
}

std::string_view protocol_name(std::uint8_t protocol) {
  switch (protocol) {
    case 1: return "ICMP";
    case 2: return "IGMP";
    case 6: return "TCP";
    case 17: return "UDP";
    case 58: return "ICMPv6";
    case 132: return "SCTP";
    default: return "";
  }
}

std::string protocol_text(std::uint8_t protocol) {
  const auto name = protocol_name(protocol);
  return name.empty() ? formatted("IP protocol {}", protocol) : std::string(name);
}

std::string foreign_ip(std::uint8_t protocol, Octets rest) {
  if (protocol != kIpProtocolUdp) return protocol_text(protocol);
  if (rest.size() < 4) return "UDP";
  return formatted("UDP {} > {}", load_be16(rest.data()), load_be16(rest.data() + 2));
}

// A short description of a foreign packet.
std::string foreign_kind(LinkType link, const NetworkLayer& layer) {
  const Octets ip = layer.octets;
  if (layer.ether_type == kEtherTypeIpv4 && ip.size() >= kIpv4Octets) {
    if (is_later_fragment(ip)) return protocol_text(ip[9]) + " fragment";
    return foreign_ip(ip[9], ip.subspan(ipv4_header_octets(ip)));
  }
  if (layer.ether_type == kEtherTypeIpv6 && ip.size() >= kIpv6Octets) {
    const bool hop_by_hop = ip[6] == 0 && ip.size() > kIpv6Octets;
    return hop_by_hop ? protocol_text(ip[kIpv6Octets]) : foreign_ip(ip[6], ip.subspan(kIpv6Octets));
  }
  if (layer.ether_type == 0x0806) return "ARP";
  if (layer.ether_type == kEtherTypeRoceV1) return "GRH without a BTH";
  if (layer.ether_type != 0) return formatted("EtherType 0x{:04x}", layer.ether_type);
  if (link == LinkType::kEthernet) return "802.3 frame";
  return formatted("link type {}, which carries neither Ethernet nor IP", static_cast<unsigned>(link));
}

// MAD errors that a different version or class does not explain.
bool is_malformed(MadError error) {
  return error == MadError::kWrongLength || error == MadError::kUnknownMessageKind ||
         error == MadError::kInfoTooLong;
}

void refuse(Dissection& result, std::string reason) {
  if (result.verdict == PacketVerdict::kBad) return;  // the first reason is the outermost one
  result.verdict = PacketVerdict::kBad;
  result.reason = std::move(reason);
}

void read_mad(Dissection& result) {
  const Octets payload = result.transport->payload;
  const auto header = parse_mad_header(payload);
  if (!header) {
    if (is_malformed(header.error()))
      refuse(result, std::string("MAD: ") + std::string(describe(header.error())));
    return;
  }
  result.mad = *header;
  auto cm = parse_cm_mad(payload);
  if (cm) {
    result.cm = std::move(*cm);
    return;
  }
  result.mad_note = describe(cm.error());
  if (is_malformed(cm.error())) refuse(result, "CM: " + result.mad_note);
}

void read_transport(Dissection& result) {
  TransportPacket packet;
  const TransportError error = parse_transport(result.frame->transport, packet);
  if (error != TransportError::kNone) {
    std::string reason(describe(error));
    if (error == TransportError::kUnknownOpcode)
      reason += formatted(" (0x{:02x})", result.frame->transport[0]);
    refuse(result, std::move(reason));
    return;
  }
  result.transport = packet;
}

bool is_for_general_services(const TransportPacket& packet) {
  const Bth& bth = packet.headers.bth;
  return bth.destination == kGeneralServicesQpn && shape_of(bth.opcode).deth;
}

// `octets` is the packet, padded with zeros if the capture cut it. A cooked pseudo header is already removed.
void read_frame(Dissection& result, LinkType link, Octets octets) {
  const NetworkLayer layer = network_layer(link, octets);
  auto frame = parse_frame(link, octets);
  if (!frame) {
    const bool foreign = is_foreign(frame.error()) || !may_be_roce(layer);
    result.reason = foreign ? foreign_kind(link, layer) : std::string(describe(frame.error()));
    result.verdict = foreign ? PacketVerdict::kForeign : PacketVerdict::kBad;
    return;
  }
  result.frame = std::move(*frame);
  result.verdict = PacketVerdict::kGood;
}

struct LinkFrame {
  LinkType link;
  Octets octets;
};

// Removes the pseudo header of a cooked capture.
LinkFrame without_pseudo_header(LinkType link, Octets octets) {
  const bool second = link == kLinuxCooked2;
  const std::size_t length = second ? kCooked2Octets : kCookedOctets;
  if ((link != kLinuxCooked && !second) || octets.size() < length) return {link, octets};
  const std::uint16_t protocol = load_be16(octets.data() + (second ? 0 : 14));
  if (protocol == kEtherTypeIpv4) return {LinkType::kIpv4, octets.subspan(length)};
  if (protocol == kEtherTypeIpv6) return {LinkType::kIpv6, octets.subspan(length)};
  return {link, octets};
}

void mark_cut(Dissection& result) {
  result.verdict = PacketVerdict::kCut;
  // Append instead of formatting: with a snap length, every packet gets one of these.
  result.reason.reserve(64);
  result.reason.append(std::to_string(result.captured_octets)).append(" of ");
  result.reason.append(std::to_string(result.original_octets)).append(" bytes captured");
}

// Judges only the captured part of a cut packet.
void judge_cut(Dissection& result) {
  const std::size_t headers_end = result.original_octets - kIcrcOctets - result.frame->trailer.size() -
                                  result.frame->transport.size() + kBthOctets;
  mark_cut(result);
  if (result.captured_octets < headers_end) {
    result.frame.reset();
    return;
  }
  // This reads only the BTH and lengths, so an error found here is in the packet itself.
  read_transport(result);
  if (!result.transport) return;
  const std::size_t header_octets = shape_of(result.transport->headers.bth.opcode).header_octets;
  if (result.captured_octets < headers_end - kBthOctets + header_octets) {
    result.transport.reset();
    return;
  }
  const std::size_t present = result.captured_octets - (headers_end - kBthOctets + header_octets);
  if (is_for_general_services(*result.transport) && present >= result.transport->payload.size())
    read_mad(result);
}

void judge_whole(Dissection& result) {
  read_transport(result);
  if (!result.frame->icrc_right()) {
    refuse(result, formatted("ICRC is wrong: {:08x} in the packet, {:08x} expected",
                             swap_octets(result.frame->icrc), swap_octets(result.frame->icrc_expected)));
  }
  if (result.transport && is_for_general_services(*result.transport)) read_mad(result);
}

}  // namespace

std::string_view verdict_name(PacketVerdict verdict) {
  switch (verdict) {
    case PacketVerdict::kGood: return "good";
    case PacketVerdict::kCut: return "cut";
    case PacketVerdict::kBad: return "bad";
    case PacketVerdict::kForeign: return "foreign";
  }
  return "";
}

Dissection dissect(const CapturedPacket& packet) {
  Dissection result;
  result.captured_octets = packet.octets.size();
  result.original_octets = std::max<std::size_t>(packet.original_octets, packet.octets.size());
  const bool cut = result.captured_octets < result.original_octets;
  Octets octets = packet.octets;
  if (cut && result.original_octets <= kOriginalOctetsMax) {
    result.filled_up.resize(result.original_octets);
    std::copy(octets.begin(), octets.end(), result.filled_up.begin());
    octets = result.filled_up;
  }
  if (packet.link == LinkType::kEthernet) {
    if (const auto ethernet = parse_ethernet(octets)) result.ethernet = *ethernet;
  }
  const auto [link, inner] = without_pseudo_header(packet.link, octets);
  read_frame(result, link, inner);
  result.link_octets = octets.size() - inner.size() + (result.ethernet ? result.ethernet->octets() : 0);
  if (!result.frame) {
    // Headers that were not captured are not errors.
    const bool headers_missing = result.captured_octets < result.link_octets + kIpv6Octets + kUdpOctets;
    if (cut && result.is_roce() && headers_missing) mark_cut(result);
    return result;
  }
  if (cut) {
    judge_cut(result);
  } else {
    judge_whole(result);
  }
  return result;
}

}  // namespace rrdma::wire
