// The Ethernet address of a GID, for ibv_resolve_eth_l2_from_gid. Multicast addresses and link-local
// addresses made of a MAC contain it; for all others the kernel's neighbour table has it.
#include <infiniband/verbs.h>
#include <netlink/route/neighbour.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "host/explain.h"
#include "preload/verbs/device/gid_mac.h"
#include "preload/verbs/queues/address.h"

namespace rrdma::verbs {
namespace {

constexpr std::uint16_t kNoVlan = 0xffff;

struct FreeSocket {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
struct FreeCache {
  void operator()(nl_cache* cache) const { nl_cache_free(cache); }
};

bool is_same_address(nl_addr* address, const wire::Gid& gid) {
  if (address == nullptr) return false;
  const auto* octets = static_cast<const std::uint8_t*>(nl_addr_get_binary_addr(address));
  const unsigned length = nl_addr_get_len(address);
  if (gid.is_ipv4()) return length == 4 && std::memcmp(octets, gid.octets.data() + 12, 4) == 0;
  return length == 16 && std::memcmp(octets, gid.octets.data(), 16) == 0;
}

bool neighbour_mac(int interface, const wire::Gid& gid, std::uint8_t* mac) {
  std::unique_ptr<nl_sock, FreeSocket> socket(nl_socket_alloc());
  nl_cache* raw_cache = nullptr;
  if (socket == nullptr || nl_connect(socket.get(), NETLINK_ROUTE) < 0) return false;
  if (rtnl_neigh_alloc_cache(socket.get(), &raw_cache) < 0) return false;
  std::unique_ptr<nl_cache, FreeCache> cache(raw_cache);
  for (nl_object* object = nl_cache_get_first(cache.get()); object != nullptr;
       object = nl_cache_get_next(object)) {
    auto* neighbour = reinterpret_cast<rtnl_neigh*>(object);
    if (rtnl_neigh_get_ifindex(neighbour) != interface ||
        !is_same_address(rtnl_neigh_get_dst(neighbour), gid))
      continue;
    nl_addr* link = rtnl_neigh_get_lladdr(neighbour);
    if (link == nullptr || nl_addr_get_len(link) != 6) continue;
    std::memcpy(mac, nl_addr_get_binary_addr(link), 6);
    return true;
  }
  return false;
}

int say(const Mac& found, std::uint8_t* mac) {
  std::copy(found.begin(), found.end(), mac);
  return 0;
}

}  // namespace

int resolve_ethernet(Context& context, const wire::Gid& gid, std::uint8_t* mac, std::uint16_t* vlan) {
  if (vlan != nullptr) *vlan = kNoVlan;
  if (const auto group = multicast_mac(gid)) return say(*group, mac);
  if (context.nic_device->is_local_address(gid)) {
    std::memset(mac, 0, ETHERNET_LL_SIZE);  // this host: the loopback interface has the zero address
    return 0;
  }
  if (neighbour_mac(static_cast<int>(context.nic_device->identity().interface_index), gid, mac)) return 0;
  if (const auto embedded = embedded_mac(gid)) return say(*embedded, mac);
  return host::fail(EHOSTUNREACH, "ibv_resolve_eth_l2_from_gid",
                    "the kernel knows no neighbour with that address; send something to it first (ping), or "
                    "let the connection manager resolve it.");
}

}  // namespace rrdma::verbs
