// Routes: maps the IP addresses that a program names to the device and the GIDs of its packets. A device sits
// on one interface and has that interface's addresses as GIDs. The source address selects the device; without
// one, the kernel's routing does. Calls to any address of this host stay within it. If the address belongs to
// no device (127.0.0.1 while the device is on eth0), they go from one of the device's GIDs to itself.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "host/device.h"
#include "preload/rdma_cm/address.h"
#include "preload/rdma_cm/routing/kernel_routes.h"

namespace rrdma::rdma_cm {

// The open devices; at least one.
using DeviceList = std::vector<std::shared_ptr<host::Device>>;

// The device that has the GID; the first one if none has.
[[nodiscard]] host::Device& device_of(const DeviceList& devices, const wire::Gid& gid);

struct ResolvedRoute {
  IpAddress source;  // as the program sees it; the caller fills the port
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;
  std::optional<NextHop> next_hop = std::nullopt;   // its hardware address must be known; empty on this host
  std::optional<Problem> no_device = std::nullopt;  // the route leaves by an interface without a device
};

// ask_kernel_route, or a test's replacement.
using AskRoute = Result<KernelRoute, int> (*)(const IpAddress& source, const IpAddress& destination,
                                              std::uint32_t interface_index);

// Checks an address that an id may be bound to. EADDRNOTAVAIL: not of this host; ENODEV: not on our devices.
[[nodiscard]] Result<void, Problem> check_source(const DeviceList& devices, const IpAddress& source);

// `source` may be the wildcard. REQUIRES: source and destination are of one IP family.
[[nodiscard]] Result<ResolvedRoute, Problem> resolve_route(const DeviceList& devices, const IpAddress& source,
                                                           const IpAddress& destination,
                                                           AskRoute ask = ask_kernel_route);

// The index of the GID in the device's table.
[[nodiscard]] std::optional<std::uint32_t> gid_index_of(const host::Device& device, const wire::Gid& gid);
// The index that a connection on this local GID uses: its own or, if the peer is on this host, any.
[[nodiscard]] std::optional<std::uint32_t> gid_index_for(const host::Device& device, const wire::Gid& local,
                                                         const wire::Gid& remote);

}  // namespace rrdma::rdma_cm
