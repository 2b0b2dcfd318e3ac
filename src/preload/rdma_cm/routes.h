// Routes: from the IP addresses that a program names to the GIDs that its packets carry. The device sits on
// one interface and has that interface's addresses as GIDs. Calls to any address of this host stay within
// it, and go from one of the device's GIDs to itself where the address is not one of them (127.0.0.1 while
// the device is on eth0).
#pragma once

#include <optional>

#include "base/problem.h"
#include "base/result.h"
#include "host/device.h"
#include "preload/rdma_cm/address.h"

namespace rrdma::rdma_cm {

struct ResolvedRoute {
  IpAddress source;  // as the program sees it; the port is the caller's business
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;
};

// An address that an id may be bound to. EADDRNOTAVAIL: not of this host; ENODEV: not on our device.
[[nodiscard]] Result<void, Problem> check_source(const host::Device& device, const IpAddress& source);

// `source` may be the wildcard. REQUIRES: source and destination are of one IP family.
[[nodiscard]] Result<ResolvedRoute, Problem> resolve_route(const host::Device& device,
                                                           const IpAddress& source,
                                                           const IpAddress& destination);

// The index of the GID in the device's table.
[[nodiscard]] std::optional<std::uint32_t> gid_index_of(const host::Device& device, const wire::Gid& gid);
// The index that a connection on this local GID uses: its own, or, where the peer is on this host, any.
[[nodiscard]] std::optional<std::uint32_t> gid_index_for(const host::Device& device, const wire::Gid& local,
                                                         const wire::Gid& remote);

}  // namespace rrdma::rdma_cm
