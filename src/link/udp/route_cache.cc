#include "link/udp/route_cache.h"

#include <netinet/ip.h>

#include <cstring>

#include "base/assert.h"
#include "base/octets.h"
#include "wire/udp.h"

namespace rrdma::link {

static_assert(kPacketInfo6Octets == sizeof(in6_pktinfo));
namespace {

constexpr std::uint8_t kDefaultHopLimit = 64;

std::size_t place_of(const RouteKey& key, std::size_t places) {
  const auto mixed = (load_native<std::uint64_t>(key.remote.octets.data() + 8) * 0x9e3779b97f4a7c15u) ^
                     (load_native<std::uint64_t>(key.local.octets.data() + 8) * 0xc2b2ae3d27d4eb4fu) ^
                     (load_native<std::uint64_t>(key.remote.octets.data()) * 0xd6e8feb86659fd93u) ^
                     (std::uint64_t{key.port_index} << 40 | std::uint64_t{key.traffic_class} << 32);
  return (mixed ^ mixed >> 29) * 0x9e3779b97f4a7c15u >> 40 & (places - 1);
}

template <typename T>
std::size_t append_value(Route& route, int level, int type, const T& value) {
  return append_control(route.control.data(), route.control_octets, level, type, &value, sizeof value);
}

}  // namespace

std::size_t append_control(std::uint8_t* control, std::size_t used, int level, int type, const void* value,
                           std::size_t octets) {
  RRDMA_ASSERT(used + CMSG_SPACE(octets) <= kControlOctetsMax);
  cmsghdr head{};
  head.cmsg_len = CMSG_LEN(octets);
  head.cmsg_level = level;
  head.cmsg_type = type;
  std::memset(control + used, 0, CMSG_SPACE(octets));
  std::memcpy(control + used, &head, sizeof head);
  std::memcpy(control + used + CMSG_LEN(0), value, octets);
  return used + CMSG_SPACE(octets);
}

RouteCache::RouteCache(const SendPorts& ipv4, const SendPorts& ipv6, std::uint32_t interface_index)
    : ipv4_(ipv4), ipv6_(ipv6), interface_index_(interface_index), routes_(kRoutes) {}

const SendPorts& RouteCache::ports_of(const objects::Path& path) const {
  return path.remote.is_ipv4() ? ipv4_ : ipv6_;
}

RouteCache::Found RouteCache::find(const objects::Path& path, std::uint64_t batch) {
  const SendPorts& ports = ports_of(path);
  if (ports.empty() || path.local.is_ipv4() != path.remote.is_ipv4()) return {Verdict::kNoSocket};
  const RouteKey key{.local = path.local,
                     .remote = path.remote,
                     .port_index = static_cast<std::uint16_t>(ports.index_for(path.source_port)),
                     .traffic_class = path.traffic_class,
                     .hop_limit = path.hop_limit,
                     .interface_index = path.interface_index != 0 ? path.interface_index : interface_index_};
  Route& route = routes_[place_of(key, routes_.size())];
  if (!route.seed || route.key != key) {
    if (route.seed && route.batch == batch) return {Verdict::kInUse};
    fill(route, key);
  }
  route.batch = batch;
  return {Verdict::kFound, &route};
}

std::uint16_t RouteCache::source_port(const objects::Path& path) const {
  const SendPorts& ports = ports_of(path);
  return ports.empty() ? std::uint16_t{0} : ports.ports()[ports.index_for(path.source_port)].number;
}

void RouteCache::fill(Route& route, const RouteKey& key) const {
  const bool multicast = key.remote.is_multicast();
  // Multicast has its own default (1), so always set it.
  const bool tell_hop_limit = key.hop_limit != 0 && (key.hop_limit != kDefaultHopLimit || multicast);
  const int hop_limit = key.hop_limit;
  const int traffic_class = key.traffic_class;
  route.key = key;
  route.address = {};
  route.control_octets = 0;
  if (key.remote.is_ipv4()) {
    const SendPort& port = ipv4_.ports()[key.port_index];
    route.plain = port.plain.get();
    route.segmenting = port.segmenting.get();
    route.seed = wire::IcrcSeed::ipv4({key.local.ipv4()}, {key.remote.ipv4()}, port.number);
    route.address.v4.sin_family = AF_INET;
    route.address.v4.sin_port = htons(wire::kRoceUdpPort);
    std::memcpy(&route.address.v4.sin_addr, key.remote.octets.data() + 12, 4);
    route.address_octets = sizeof route.address.v4;
    in_pktinfo source{};
    std::memcpy(&source.ipi_spec_dst, key.local.octets.data() + 12, 4);
    if (multicast) source.ipi_ifindex = static_cast<int>(key.interface_index);
    route.control_octets = append_value(route, IPPROTO_IP, IP_PKTINFO, source);
    if (tell_hop_limit) route.control_octets = append_value(route, IPPROTO_IP, IP_TTL, hop_limit);
    if (traffic_class != 0) route.control_octets = append_value(route, IPPROTO_IP, IP_TOS, traffic_class);
  } else {
    const SendPort& port = ipv6_.ports()[key.port_index];
    route.plain = port.plain.get();
    route.segmenting = port.segmenting.get();
    route.seed = wire::IcrcSeed::ipv6({key.local.octets}, {key.remote.octets}, port.number);
    const bool on_interface = multicast || key.remote.is_link_local() || key.local.is_link_local();
    route.address.v6.sin6_family = AF_INET6;
    route.address.v6.sin6_port = htons(wire::kRoceUdpPort);
    std::memcpy(&route.address.v6.sin6_addr, key.remote.octets.data(), 16);
    if (on_interface) route.address.v6.sin6_scope_id = key.interface_index;
    route.address_octets = sizeof route.address.v6;
    in6_pktinfo source{};
    std::memcpy(&source.ipi6_addr, key.local.octets.data(), 16);
    if (on_interface) source.ipi6_ifindex = key.interface_index;
    route.control_octets = append_value(route, IPPROTO_IPV6, IPV6_PKTINFO, source);
    if (tell_hop_limit) route.control_octets = append_value(route, IPPROTO_IPV6, IPV6_HOPLIMIT, hop_limit);
    if (traffic_class != 0)
      route.control_octets = append_value(route, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
  }
}

}  // namespace rrdma::link
