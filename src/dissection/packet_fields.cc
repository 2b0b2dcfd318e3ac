#include "dissection/packet_fields.h"

#include "base/format.h"
#include "wire/address_text.h"
#include "wire/rnr_timer.h"

namespace rrdma::wire {

Field& Field::add_hex(std::string_view its_key, std::string_view its_label, std::uint64_t number,
                      unsigned digits, std::string_view its_meaning) {
  std::string words = formatted("0x{:0{}x}", number, digits);
  if (digits > 8) return add_text(its_key, its_label, std::move(words), its_meaning);
  return add(its_key, its_label, static_cast<std::uint32_t>(number), std::move(words), its_meaning);
}

namespace {

void add_ethernet(Field& parent, const EthernetHeader& header) {
  Field& group = parent.add_group("ethernet", "Ethernet", octets_text(header.octets()),
                                  "Carries the packet over one link; routers replace it.");
  group.add_text("destination", "Destination", to_text(header.destination), "The next station on this link.");
  group.add_text("source", "Source", to_text(header.source), "The station that put it on this link.");
  if (header.vlan) {
    Field& vlan = group.add_group("vlan", "802.1Q tag", "",
                                  "Says to which virtual network the frame belongs, and how urgent it is.");
    vlan.add_number("id", "VLAN", header.vlan->id, "The virtual network.");
    vlan.add_number("priority", "Priority", header.vlan->priority,
                    "Lossless Ethernet (priority flow control) pauses traffic by this number.");
    vlan.add_flag("drop_eligible", "Drop eligible", header.vlan->drop_eligible,
                  "A congested switch drops such frames first.");
  }
  group.add_hex("type", "EtherType", header.ether_type, 4,
                "What follows: 0x0800 IPv4, 0x86dd IPv6, 0x8915 RoCE v1.");
}

std::string_view ecn_text(std::uint8_t traffic_class) {
  switch (traffic_class & 3) {
    case 0: return "not ECN capable";
    case 3: return "congestion experienced";
    default: return "ECN capable";
  }
}

// DSCP and ECN share the byte that IPv4 calls TOS and IPv6 calls traffic class.
void add_traffic_class(Field& group, std::uint8_t traffic_class) {
  group.add_number("dscp", "DSCP", traffic_class >> 2,
                   "Class of service: switches choose queue and lossless priority by it.");
  group.add("ecn", "ECN", std::uint32_t{traffic_class} & 3u,
            formatted("{} ({})", traffic_class & 3, ecn_text(traffic_class)),
            "A congested switch sets it to 3; the receiver then asks the sender to slow down by a CNP.");
}

constexpr std::string_view kHopsMeaning =
    "How many more routers may pass the packet on; each counts it down.";

void add_ipv4(Field& parent, const Ipv4Header& ip) {
  Field& group = parent.add_group("ipv4", "IPv4", octets_text(ip.octets()),
                                  "Carries the packet from host to host; this makes RoCE v2 routable.");
  add_traffic_class(group, ip.tos);
  group.add_number("total_length", "Total length", ip.total_length,
                   "Bytes from this header to the end of the ICRC.");
  group.add_hex("identification", "Identification", ip.identification, 4,
                "Numbers packets for reassembly; RoCE is never fragmented, but the ICRC covers it.");
  group.add_flag("dont_fragment", "Don't fragment", ip.dont_fragment,
                 "Routers must refuse rather than cut the packet.");
  group.add_number("ttl", "Time to live", ip.ttl, kHopsMeaning);
  group.add_text("source", "Source", to_text(ip.source),
                 "The sender; as a GID it is written ::ffff:a.b.c.d.");
  group.add_text("destination", "Destination", to_text(ip.destination), "The receiver.");
  if (ip.options_octets != 0) {
    group.add_number("options_octets", "Options", ip.options_octets,
                     "Bytes of IPv4 options; RoCE senders use none.");
  }
}

// IPv6 and the GRH of RoCE v1 share one layout.
template <typename Header>
void add_ipv6_like(Field& group, const Header& ip) {
  add_traffic_class(group, ip.traffic_class);
  group.add_hex("flow_label", "Flow label", ip.flow_label, 5,
                "Routers may choose among equal paths by it; one flow keeps one label.");
  group.add_number("payload_length", "Payload length", ip.payload_length,
                   "Bytes from behind this header to the end of the ICRC.");
  group.add_number("next_header", "Next header", ip.next_header, "What follows: 17 is UDP, 27 a BTH.");
  group.add_number("hop_limit", "Hop limit", ip.hop_limit, kHopsMeaning);
  group.add_text("source", "Source", to_text(ip.source), "The sender; its GID is this address.");
  group.add_text("destination", "Destination", to_text(ip.destination), "The receiver.");
}

void add_network(Field& parent, const RoceFrame& frame) {
  switch (frame.network_kind()) {
    case Network::kIpv4: add_ipv4(parent, std::get<Ipv4Header>(frame.network)); return;
    case Network::kIpv6:
      add_ipv6_like(parent.add_group("ipv6", "IPv6", octets_text(kIpv6Octets),
                                     "Carries the packet from host to host; this makes RoCE v2 routable."),
                    std::get<Ipv6Header>(frame.network));
      return;
    case Network::kRoceV1:
      add_ipv6_like(
          parent.add_group("grh", "GRH", octets_text(kGrhOctets),
                           "The global route header of RoCE v1: addresses, but no IP; not routable."),
          std::get<Grh>(frame.network));
      return;
  }
}

std::string_view checksum_text(ChecksumVerdict verdict) {
  switch (verdict) {
    case ChecksumVerdict::kNone: return "none";
    case ChecksumVerdict::kRight: return "right";
    case ChecksumVerdict::kWrong: return "wrong, or not filled in yet";
  }
  return "";
}

void add_udp(Field& parent, const RoceFrame& frame, bool whole) {
  Field& group = parent.add_group("udp", "UDP", octets_text(kUdpOctets),
                                  "Lets ordinary IP networks carry and spread RoCE v2.");
  group.add_number("source_port", "Source port", frame.udp.source,
                   "Entropy: fixed for a flow, so that switches spread flows over equal paths.");
  group.add_number("destination_port", "Destination port", frame.udp.destination, "4791 means RoCE v2.");
  group.add_number("length", "Length", frame.udp.length, "Bytes of this header and all that follows it.");
  group.add("checksum", "Checksum", std::uint32_t{frame.udp.checksum},
            whole ? formatted("0x{:04x} ({})", frame.udp.checksum, checksum_text(frame.udp_checksum))
                  : formatted("0x{:04x}", frame.udp.checksum),
            "Usually 0, none: the ICRC protects the packet better.");
}

void add_payload(Field& parent, const Dissection& packet) {
  if (packet.transport->payload.empty() && packet.transport->headers.bth.pad == 0) return;
  parent.add("payload_octets", "Payload", static_cast<std::uint32_t>(packet.transport->payload.size()),
             formatted("{} bytes, then {} of pad", packet.transport->payload.size(),
                       packet.transport->headers.bth.pad),
             "What the program sends; pad fills it up to a multiple of four bytes.");
}

void add_icrc(Field& parent, const Dissection& packet) {
  constexpr std::string_view kMeaning =
      "The invariant CRC: covers all that must not change on the way. A receiver drops a packet silently if "
      "it is wrong.";
  // Printed in wire byte order.
  const std::uint32_t value = swap_octets(packet.frame->icrc);
  const std::uint32_t expected = swap_octets(packet.frame->icrc_expected);
  if (!packet.icrc_checked()) {
    parent.add_group("icrc", "ICRC", "not checked: the capture cut the packet", kMeaning)
        .add_flag("checked", "Checked", false, "Needs the whole packet.");
    return;
  }
  const bool right = packet.frame->icrc_right();
  Field& group = parent.add_group("icrc", "ICRC", right ? "right" : "wrong", kMeaning);
  group.add_flag("checked", "Checked", true, "Needs the whole packet.");
  group.add_flag("right", "Right", right, "Whether the two values below are equal.");
  group.add_hex("value", "In the packet", value, 8, "As the sender computed it, in the order of the wire.");
  group.add_hex("expected", "Expected", expected, 8, "As computed from the packet that arrived.");
}

}  // namespace

Field packet_fields(const Dissection& packet) {
  Field root;
  if (packet.ethernet) add_ethernet(root, *packet.ethernet);
  if (!packet.frame) return root;
  add_network(root, *packet.frame);
  if (packet.frame->network_kind() != Network::kRoceV1) add_udp(root, *packet.frame, packet.icrc_checked());
  if (packet.transport) {
    add_transport_fields(root, packet.transport->headers);
    if (packet.mad) add_mad_fields(root, *packet.mad);
    if (packet.cm) add_cm_fields(root, *packet.cm);
    add_payload(root, packet);
  }
  add_icrc(root, packet);
  return root;
}

}  // namespace rrdma::wire
