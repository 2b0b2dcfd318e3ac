#include "preload/rdma_cm/routes.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/owned_fd.h"
#include "wire/udp.h"

namespace rrdma::rdma_cm {
namespace {

std::string place_of(const host::Device& device) {
  return device.identity().name + " sits on interface " + device.identity().interface;
}

// A GID of the device of the given family; of the other family where there is none.
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

// The source address that the kernel's routing would choose, or an errno. Nothing is sent.
Result<IpAddress, int> ask_kernel(const IpAddress& destination) {
  const bool ipv4 = destination.family == Family::kIpv4;
  const OwnedFd socket = lifted(raw::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return Failure{errno};
  IpAddress target = destination;
  target.port = wire::kRoceUdpPort;
  sockaddr_storage storage;
  const auto size = static_cast<socklen_t>(emit_sockaddr(target, &storage));
  if (raw::connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) < 0)
    return Failure{errno};
  socklen_t got = sizeof storage;
  if (raw::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &got) < 0) return Failure{errno};
  const auto source = address_of(&storage, got);
  if (!source) return Failure{EAFNOSUPPORT};
  return *source;
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

Result<ResolvedRoute, Problem> resolve_route(const DeviceList& devices, const IpAddress& source,
                                             const IpAddress& asked) {
  const IpAddress destination = asked.is_any() ? loopback_of(asked.family) : asked;
  if (destination.is_multicast()) return route_to_group(device_of(devices, source.gid), source, destination);
  if (destination.is_loopback() || devices.front()->is_local_address(destination.gid)) {
    return route_within_host(devices, source, destination);
  }
  if (source.is_loopback()) {
    return problem(ENETUNREACH, "a loopback address cannot reach " + text_of(destination) + ".");
  }
  ResolvedRoute route{.source = source, .remote = destination.gid};
  if (source.is_any()) {
    const auto chosen = ask_kernel(destination);
    if (!chosen) {
      return problem(chosen.error(), "there is no route to " + text_of(destination) + ": " +
                                         std::strerror(chosen.error()) + ".");
    }
    route.source = *chosen;
  }
  const host::Device& device = device_of(devices, route.source.gid);
  route.interface_index = destination.scope != 0 ? destination.scope : device.identity().interface_index;
  if (source.is_any() && route.source.is_link_local()) route.source.scope = route.interface_index;
  route.local = route.source.gid;
  if (gid_index_of(device, route.local)) return route;
  return problem(ENODEV, "the route to " + text_of(destination) + " leaves from " + text_of(route.source) +
                             ", but " + place_of(device) +
                             "; set RRDMA_NETDEV to the interface of that address.");
}

}  // namespace rrdma::rdma_cm
