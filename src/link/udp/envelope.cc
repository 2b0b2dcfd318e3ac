#include "link/udp/envelope.h"

#include <netinet/udp.h>

#include <cstring>

#include "wire/address.h"

namespace rrdma::link {
namespace {

wire::Gid gid_of_v4(const in_addr& address) {
  wire::Ipv4Address octets;
  std::memcpy(octets.octets.data(), &address, 4);
  return wire::gid_of(octets);
}
wire::Gid gid_of_v6(const in6_addr& address) {
  wire::Gid gid;
  std::memcpy(gid.octets.data(), &address, 16);
  return gid;
}

template <typename T>
T value_of(const cmsghdr* control) {
  T value;
  std::memcpy(&value, CMSG_DATA(control), sizeof value);
  return value;
}

bool is_one_family(const Envelope& envelope) {
  return envelope.source.is_ipv4() == envelope.destination.is_ipv4();
}

}  // namespace

std::optional<Envelope> read_envelope(const msghdr& message) {
  const auto& from = *static_cast<const SenderAddress*>(message.msg_name);
  if (message.msg_namelen < sizeof from.v4) return std::nullopt;
  Envelope envelope;
  bool has_destination = false;
  if (from.v4.sin_family == AF_INET) {
    envelope.source = gid_of_v4(from.v4.sin_addr);
    envelope.source_port = ntohs(from.v4.sin_port);
  } else {
    envelope.source = gid_of_v6(from.v6.sin6_addr);
    envelope.source_port = ntohs(from.v6.sin6_port);
  }
  auto* head = const_cast<msghdr*>(&message);
  for (cmsghdr* control = CMSG_FIRSTHDR(head); control != nullptr; control = CMSG_NXTHDR(head, control)) {
    if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_GRO) {
      const int octets = value_of<int>(control);
      if (octets > 0) envelope.segment_octets = static_cast<std::size_t>(octets);
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
      const auto info = value_of<in_pktinfo>(control);
      envelope.destination = gid_of_v4(info.ipi_addr);
      envelope.interface_index = static_cast<std::uint32_t>(info.ipi_ifindex);
      has_destination = true;
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
      envelope.traffic_class = value_of<std::uint8_t>(control);
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TTL) {
      envelope.hop_limit = static_cast<std::uint8_t>(value_of<int>(control));
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
      const auto info = value_of<in6_pktinfo>(control);
      envelope.destination = gid_of_v6(info.ipi6_addr);
      envelope.interface_index = info.ipi6_ifindex;
      has_destination = true;
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_TCLASS) {
      envelope.traffic_class = static_cast<std::uint8_t>(value_of<int>(control));
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_HOPLIMIT) {
      envelope.hop_limit = static_cast<std::uint8_t>(value_of<int>(control));
    }
  }
  if (!has_destination || !is_one_family(envelope)) return std::nullopt;
  return envelope;
}

RelayHeader relay_header(const Envelope& envelope) {
  return {.source = envelope.source,
          .destination = envelope.destination,
          .interface_index = envelope.interface_index,
          .segment_octets = static_cast<std::uint32_t>(envelope.segment_octets),
          .source_port = envelope.source_port,
          .traffic_class = envelope.traffic_class,
          .hop_limit = envelope.hop_limit};
}

std::optional<Envelope> read_relay_header(Octets datagram) {
  RelayHeader header;
  if (datagram.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, datagram.data(), sizeof header);
  const Envelope envelope{.source = header.source,
                          .destination = header.destination,
                          .source_port = header.source_port,
                          .interface_index = header.interface_index,
                          .traffic_class = header.traffic_class,
                          .hop_limit = header.hop_limit,
                          .segment_octets = header.segment_octets};
  if (!is_one_family(envelope)) return std::nullopt;
  return envelope;
}

}  // namespace rrdma::link
