// Queries the kernel's routing and neighbour tables over rtnetlink. The kernel's own rdma_cm queries the same
// two tables (addr4_resolve, addr6_resolve and dst_fetch_ha of drivers/infiniband/core/addr.c).
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "preload/rdma_cm/address.h"

namespace rrdma::rdma_cm {

// The next station on the link: the destination itself, or a gateway.
struct NextHop {
  IpAddress address;
  std::uint32_t interface_index = 0;
  IpAddress source;  // of the packets; the wildcard: the kernel chooses
};

struct KernelRoute {
  IpAddress source;
  std::uint32_t interface_index = 0;
  std::optional<NextHop> next_hop;  // empty if no neighbour is needed: broadcast, or a link without addresses
};

// `source` may be the wildcard; `interface_index` 0 means any. The error is the errno of the kernel's
// routing: ENETUNREACH, EHOSTUNREACH (unreachable), EACCES (prohibit), EINVAL (blackhole). With an interface,
// IPv4 has no such errors: the kernel then takes every address for one on that link.
[[nodiscard]] Result<KernelRoute, int> ask_kernel_route(const IpAddress& source, const IpAddress& destination,
                                                        std::uint32_t interface_index);

enum class NeighbourState : std::uint8_t { kKnown, kSought, kUnknown };

// Returns kKnown also if the kernel does not tell.
[[nodiscard]] NeighbourState state_of_neighbour(const NextHop& hop);

// Makes the kernel ask for the neighbour's hardware address (ARP, neighbour discovery). It does so only for a
// packet, so this sends an empty datagram to the discard port (RFC 863) of the next hop, which goes no
// further.
void seek_neighbour(const NextHop& hop);

}  // namespace rrdma::rdma_cm
