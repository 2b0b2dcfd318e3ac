#include "host/interfaces.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/route.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "base/raw_syscall.h"
#include "base/result_try.h"
#include "host/descriptor_room.h"

namespace rrdma::host {
namespace {

struct SocketFree {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
struct CacheFree {
  void operator()(nl_cache* cache) const { nl_cache_free(cache); }
};
using Socket = std::unique_ptr<nl_sock, SocketFree>;
using Cache = std::unique_ptr<nl_cache, CacheFree>;

// libnl maps kernel errors to its own numbers. errno holds the kernel's error; if it is 0, the reason is
// libnl's own. REQUIRES: errno was 0 before the call.
Failure<Problem> unreadable(int reason) {
  const int error = errno != 0 ? errno : EIO;
  if (error == EMFILE || error == ENFILE) return out_of_descriptors(error, "reading the network interfaces");
  return problem(error,
                 formatted("the kernel does not tell the network interfaces ({}): a sandbox may forbid "
                           "netlink sockets (AF_NETLINK).",
                           errno != 0 ? std::strerror(error) : nl_geterror(reason)));
}

Interface describe_link(rtnl_link* link) {
  Interface interface;
  if (const char* name = rtnl_link_get_name(link)) interface.name = name;
  interface.index = static_cast<std::uint32_t>(rtnl_link_get_ifindex(link));
  interface.mtu = rtnl_link_get_mtu(link);
  const unsigned flags = rtnl_link_get_flags(link);
  interface.running = (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
  interface.loopback = (flags & IFF_LOOPBACK) != 0;
  if (nl_addr* address = rtnl_link_get_addr(link); address != nullptr && nl_addr_get_len(address) == 6) {
    std::memcpy(interface.mac, nl_addr_get_binary_addr(address), 6);
  }
  return interface;
}

wire::Gid gid_of(nl_addr* address) {
  wire::Gid gid;
  const auto* octets = static_cast<const std::uint8_t*>(nl_addr_get_binary_addr(address));
  if (nl_addr_get_family(address) == AF_INET && nl_addr_get_len(address) == 4) {
    gid = wire::gid_of_ipv4({octets[0], octets[1], octets[2], octets[3]});
  } else if (nl_addr_get_family(address) == AF_INET6 && nl_addr_get_len(address) == 16) {
    std::memcpy(gid.octets.data(), octets, 16);
  }
  return gid;
}

// A total order that every process computes alike: the oldest address comes first.
bool stands_before(const InterfaceAddress& a, const InterfaceAddress& b) {
  if (a.gid.is_link_local() != b.gid.is_link_local()) return a.gid.is_link_local();
  if (a.created != b.created) return a.created < b.created;
  return a.gid.is_ipv4() && !b.gid.is_ipv4();
}

// One digit; 0 if the kernel has no such setting.
Result<char, Problem> ipv6_setting(const std::string& interface, const char* name) {
  const std::string path = "/proc/sys/net/ipv6/conf/" + interface + "/" + name;
  const OwnedFd file(static_cast<int>(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  if (!file.valid() && (errno == EMFILE || errno == ENFILE))
    return out_of_descriptors(errno, "reading " + path);
  char digit = 0;
  return file.valid() && raw::read(file.get(), &digit, 1) == 1 ? digit : char{0};
}

// Whether the kernel assigns this interface a link-local address automatically.
Result<bool, Problem> gets_link_local(const std::string& interface) {
  constexpr char kNoAddress = '1';  // IN6_ADDR_GEN_MODE_NONE
  const auto disabled = ipv6_setting(interface, "disable_ipv6");
  RRDMA_TRY(disabled);
  const auto mode = ipv6_setting(interface, "addr_gen_mode");
  RRDMA_TRY(mode);
  return *disabled == '0' && *mode != kNoAddress;
}

Result<void, Problem> sort_addresses(Interface& interface) {
  std::stable_sort(interface.addresses.begin(), interface.addresses.end(), stands_before);
  interface.link_local = std::any_of(interface.addresses.begin(), interface.addresses.end(),
                                     [](const InterfaceAddress& a) { return a.gid.is_link_local(); });
  if (interface.link_local || interface.loopback) return {};
  const auto later = gets_link_local(interface.name);
  RRDMA_TRY(later);
  interface.link_local = *later;
  return {};
}

Result<void, Problem> read_addresses(nl_sock* socket, std::vector<Interface>& interfaces) {
  nl_cache* raw_cache = nullptr;
  if (const int reason = rtnl_addr_alloc_cache(socket, &raw_cache); reason < 0) return unreadable(reason);
  const Cache cache(raw_cache);
  for (nl_object* object = nl_cache_get_first(cache.get()); object != nullptr;
       object = nl_cache_get_next(object)) {
    auto* address = reinterpret_cast<rtnl_addr*>(object);
    nl_addr* local = rtnl_addr_get_local(address);
    if (local == nullptr || (rtnl_addr_get_flags(address) & IFA_F_DADFAILED) != 0) continue;
    const InterfaceAddress found{.gid = gid_of(local),
                                 .prefix_length = static_cast<std::uint8_t>(nl_addr_get_prefixlen(local)),
                                 .created = static_cast<int>(rtnl_addr_get_create_time(address))};
    // A tentative address (duplicate detection is in progress) cannot be used yet. Show the link-local one
    // anyway, as the kernel's RoCE does: programs remember its index.
    const bool tentative = (rtnl_addr_get_flags(address) & IFA_F_TENTATIVE) != 0;
    if (found.gid.is_zero() || (tentative && !found.gid.is_link_local())) continue;
    for (Interface& interface : interfaces) {
      if (interface.index == static_cast<std::uint32_t>(rtnl_addr_get_ifindex(address)))
        interface.addresses.push_back(found);
    }
  }
  for (Interface& interface : interfaces) {
    if (auto sorted = sort_addresses(interface); !sorted) return sorted;
  }
  return {};
}

Result<void, Problem> mark_default_route(nl_sock* socket, std::vector<Interface>& interfaces) {
  nl_cache* raw_cache = nullptr;
  if (const int reason = rtnl_route_alloc_cache(socket, AF_UNSPEC, 0, &raw_cache); reason < 0)
    return unreadable(reason);
  const Cache cache(raw_cache);
  int best = -1;
  std::uint32_t best_priority = 0xffffffff;
  for (nl_object* object = nl_cache_get_first(cache.get()); object != nullptr;
       object = nl_cache_get_next(object)) {
    auto* route = reinterpret_cast<rtnl_route*>(object);
    nl_addr* destination = rtnl_route_get_dst(route);
    if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_type(route) != RTN_UNICAST) continue;
    if (destination == nullptr || nl_addr_get_prefixlen(destination) != 0 ||
        rtnl_route_get_nnexthops(route) == 0)
      continue;
    // IPv4's default route precedes IPv6's; then the smaller metric wins.
    const std::uint32_t priority =
        rtnl_route_get_priority(route) / 2 + (rtnl_route_get_family(route) == AF_INET ? 0 : 0x80000000u);
    if (priority >= best_priority) continue;
    best_priority = priority;
    best = rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(route, 0));
  }
  for (Interface& interface : interfaces)
    interface.default_route = best >= 0 && interface.index == static_cast<std::uint32_t>(best);
  return {};
}

}  // namespace

Result<std::vector<Interface>, Problem> read_interfaces() {
  std::vector<Interface> interfaces;
  errno = 0;
  const Socket socket(nl_socket_alloc());
  if (socket == nullptr) return problem(ENOMEM, "no memory to ask for the network interfaces.");
  if (const int reason = nl_connect(socket.get(), NETLINK_ROUTE); reason < 0) return unreadable(reason);
  nl_cache* raw_cache = nullptr;
  const int reason = rtnl_link_alloc_cache(socket.get(), AF_UNSPEC, &raw_cache);
  // libnl's constructors have not run yet.
  if (reason == -NLE_NOCACHE || reason == -NLE_MSGSIZE) return interfaces;
  if (reason < 0) return unreadable(reason);
  const Cache cache(raw_cache);
  for (nl_object* object = nl_cache_get_first(cache.get()); object != nullptr;
       object = nl_cache_get_next(object)) {
    interfaces.push_back(describe_link(reinterpret_cast<rtnl_link*>(object)));
  }
  std::sort(interfaces.begin(), interfaces.end(),
            [](const Interface& a, const Interface& b) { return a.index < b.index; });
  errno = 0;
  if (const auto read = read_addresses(socket.get(), interfaces); !read) return Failure{read.error()};
  errno = 0;
  if (const auto marked = mark_default_route(socket.get(), interfaces); !marked)
    return Failure{marked.error()};
  return interfaces;
}

const Interface* choose_interface(const std::vector<Interface>& all, const std::string& wanted) {
  const Interface* by_route = nullptr;
  const Interface* loopback = nullptr;
  for (const Interface& interface : all) {
    if (!wanted.empty() && interface.name == wanted) return &interface;
    if (interface.default_route) by_route = &interface;
    if (interface.loopback) loopback = &interface;
  }
  if (!wanted.empty()) return nullptr;
  return by_route != nullptr ? by_route : loopback;
}

InterfaceMonitor::InterfaceMonitor()
    : socket_(lifted(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE))) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (socket_.valid() && raw::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    socket_.reset();
}

bool InterfaceMonitor::changed() {
  if (!socket_.valid()) return false;
  bool any = false;
  std::array<std::uint8_t, 8192> message;
  // An overrun (ENOBUFS) counts as a change: a notification was lost.
  for (;;) {
    const ssize_t n =
        raw::recvfrom(socket_.get(), message.data(), message.size(), MSG_DONTWAIT, nullptr, nullptr);
    if (n < 0 && errno != ENOBUFS) return any;
    any = true;
  }
}

}  // namespace rrdma::host
