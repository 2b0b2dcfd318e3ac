#include "preload/rdma_cm/routing/routes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rrdma::rdma_cm {
namespace {

std::string place_of(const host::Device& device) {
  return device.identity().name + " sits on interface " + device.identity().interface;
}

// A GID of the device, preferably of the given family.
std::optional<wire::Gid> any_gid(const host::Device& device, Family family) {
  std::optional<wire::Gid> other;
  for (const host::GidEntry& entry : device.gids()) {
    if (!entry.valid) continue;
    const IpAddress address = address_of_gid(entry.gid, 0);
    if (address.family == family && !address.is_link_local()) return entry.gid;
    if (!other) other = entry.gid;
  }
  return other;
}

bool has_gid(const DeviceList& devices, const wire::Gid& gid) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const auto& device) { return gid_index_of(*device, gid).has_value(); });
}

Result<ResolvedRoute, Problem> route_within_host(const DeviceList& devices, const IpAddress& source,
                                                 const IpAddress& destination) {
  const host::Device& device =
      device_of(devices, has_gid(devices, source.gid) ? source.gid : destination.gid);
  ResolvedRoute route{.source = source.is_any() ? destination : source};
  route.interface_index = device.identity().interface_index;
  if (has_gid(devices, destination.gid)) {
    route.remote = destination.gid;
  } else if (const auto gid = any_gid(device, destination.family)) {
    route.remote = *gid;
  } else {
    return problem(ENODEV, place_of(device) + ", which has no address.");
  }
  route.local = gid_index_of(device, source.gid) ? source.gid
                : gid_index_of(device, route.remote)
                    ? route.remote
                    : any_gid(device, destination.family).value_or(route.remote);
  return route;
}

Result<ResolvedRoute, Problem> route_to_group(const host::Device& device, const IpAddress& source,
                                              const IpAddress& destination) {
  ResolvedRoute route{.source = source, .remote = destination.gid};
  route.interface_index = device.identity().interface_index;
  if (!source.is_any() && gid_index_of(device, source.gid)) {
    route.local = source.gid;
    return route;
  }
  const auto gid = any_gid(device, destination.family);
  if (!gid || gid->is_ipv4() != destination.gid.is_ipv4()) {
    return problem(EADDRNOTAVAIL, place_of(device) + ", which has no address of that family.");
  }
  route.local = *gid;
  route.source = address_of_gid(*gid, 0);
  return route;
}

}  // namespace

std::optional<std::uint32_t> gid_index_of(const host::Device& device, const wire::Gid& gid) {
  for (const host::GidEntry& entry : device.gids()) {
    if (entry.valid && entry.gid == gid) return entry.index;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> gid_index_for(const host::Device& device, const wire::Gid& local,
                                           const wire::Gid& remote) {
  if (const auto index = gid_index_of(device, local)) return index;
  // The caller's device is on another interface of this host.
  if (!device.is_local_address(remote)) return std::nullopt;
  const auto gid = any_gid(device, remote.is_ipv4() ? Family::kIpv4 : Family::kIpv6);
  return gid ? gid_index_of(device, *gid) : std::nullopt;
}

host::Device& device_of(const DeviceList& devices, const wire::Gid& gid) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const auto& device) { return gid_index_of(*device, gid).has_value(); });
  return found != devices.end() ? **found : *devices.front();
}

Result<void, Problem> check_source(const DeviceList& devices, const IpAddress& source) {
  if (source.is_any() || source.is_loopback() || has_gid(devices, source.gid)) return {};
  const host::Device& device = *devices.front();
  if (!device.is_local_address(source.gid)) {
    return problem(EADDRNOTAVAIL, text_of(source) + " is no address of this host.");
  }
  return problem(ENODEV, text_of(source) + " is on another interface: " + place_of(device) +
                             "; set RRDMA_NETDEV to the interface of that address.");
}

namespace {

// The interface that a route must leave by, or 0 for any: that of the source, to which the kernel binds an
// id, or the one that a link-local destination names.
std::uint32_t interface_asked_for(const DeviceList& devices, const IpAddress& source,
                                  const IpAddress& destination) {
  if (!source.is_any()) return device_of(devices, source.gid).identity().interface_index;
  return destination.is_link_local() ? destination.scope : 0;
}

}  // namespace

Result<ResolvedRoute, Problem> resolve_route(const DeviceList& devices, const IpAddress& source,
                                             const IpAddress& asked, AskRoute ask) {
  const IpAddress destination = asked.is_any() ? loopback_of(asked.family) : asked;
  if (destination.is_multicast()) return route_to_group(device_of(devices, source.gid), source, destination);
  if (destination.is_loopback() || devices.front()->is_local_address(destination.gid)) {
    return route_within_host(devices, source, destination);
  }
  if (source.is_loopback()) {
    return problem(ENETUNREACH, "a loopback address cannot reach " + text_of(destination) + ".");
  }
  const auto kernel = ask(source, destination, interface_asked_for(devices, source, destination));
  if (!kernel) {
    return problem(kernel.error(), "there is no route to " + text_of(destination) + ": " +
                                       std::strerror(kernel.error()) + ".");
  }
  ResolvedRoute route{.source = source.is_any() ? kernel->source : source, .remote = destination.gid};
  route.next_hop = kernel->next_hop;
  const host::Device& device = device_of(devices, route.source.gid);
  route.interface_index =
      destination.is_link_local() ? kernel->interface_index : device.identity().interface_index;
  if (source.is_any() && route.source.is_link_local()) route.source.scope = route.interface_index;
  route.local = route.source.gid;
  if (!gid_index_of(device, route.local)) {
    route.no_device = Problem{ENODEV, "the route to " + text_of(destination) + " leaves from " +
                                          text_of(route.source) + ", but " + place_of(device) +
                                          "; set RRDMA_NETDEV to the interface of that address."};
  }
  return route;
}

}  // namespace rrdma::rdma_cm
