#include "tools/run/private_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/owned_fd.h"
#include "host/device_links.h"

namespace rrdma::tools {
namespace {

constexpr const char* kForbiddenHint =
    "a container or the system may forbid user namespaces (kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces); without --private the devices "
    "share lo";

struct SocketFree {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
struct LinkFree {
  void operator()(rtnl_link* link) const { rtnl_link_put(link); }
};
struct AddressFree {
  void operator()(rtnl_addr* address) const { rtnl_addr_put(address); }
};

bool write_file(const char* path, const std::string& text) {
  const OwnedFd file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

Result<void, NamespaceProblem> refused(const std::string& step, const std::string& why) {
  return Failure{NamespaceProblem{"no network namespace of its own: " + step + ": " + why, kForbiddenHint}};
}

// Maps the user to the same uid and gid, so that files keep their owner.
Result<void, NamespaceProblem> leave() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  if (::geteuid() == 0 && ::unshare(CLONE_NEWNET) == 0) return {};
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return refused("unshare", std::strerror(errno));
  (void)write_file("/proc/self/setgroups", "deny");
  if (!write_file("/proc/self/uid_map", uid + " " + uid + " 1") ||
      !write_file("/proc/self/gid_map", gid + " " + gid + " 1"))
    return refused("uid_map", std::strerror(errno));
  return {};
}

int add_address(nl_sock* socket, int index, const wire::Gid& gid) {
  const bool ipv4 = gid.is_ipv4();
  const std::unique_ptr<rtnl_addr, AddressFree> address(rtnl_addr_alloc());
  nl_addr* local = ipv4 ? nl_addr_build(AF_INET, gid.octets.data() + 12, 4)
                        : nl_addr_build(AF_INET6, gid.octets.data(), 16);
  nl_addr_set_prefixlen(local, ipv4 ? 32 : 128);
  rtnl_addr_set_ifindex(address.get(), index);
  rtnl_addr_set_local(address.get(), local);
  nl_addr_put(local);
  return rtnl_addr_add(socket, address.get(), 0);
}

Result<void, NamespaceProblem> set_up_loopback(std::uint32_t devices) {
  const std::unique_ptr<nl_sock, SocketFree> socket(nl_socket_alloc());
  if (socket == nullptr || nl_connect(socket.get(), NETLINK_ROUTE) < 0)
    return refused("netlink", std::strerror(errno));
  rtnl_link* raw_lo = nullptr;
  if (const int error = rtnl_link_get_kernel(socket.get(), 0, "lo", &raw_lo); error < 0)
    return refused("lo", nl_geterror(error));
  const std::unique_ptr<rtnl_link, LinkFree> lo(raw_lo);
  const std::unique_ptr<rtnl_link, LinkFree> change(rtnl_link_alloc());
  rtnl_link_set_flags(change.get(), IFF_UP);
  if (const int error = rtnl_link_change(socket.get(), lo.get(), change.get(), 0); error < 0)
    return refused("lo up", nl_geterror(error));
  const int index = rtnl_link_get_ifindex(lo.get());
  for (std::uint32_t number = 0; number < std::max(devices, 1u); ++number) {
    const host::PrivateAddresses addresses = host::private_addresses(number);
    int error = add_address(socket.get(), index, addresses.ipv4);
    // Ignore a missing IPv6: IPv4 is enough.
    if (error >= 0 && (error = add_address(socket.get(), index, addresses.ipv6)) == -NLE_OPNOTSUPP) error = 0;
    if (error < 0) return refused("an address for lo", nl_geterror(error));
  }
  return {};
}

}  // namespace

Result<void, NamespaceProblem> enter_private_network(std::uint32_t devices) {
  if (auto left = leave(); !left) return left;
  return set_up_loopback(devices);
}

}  // namespace rrdma::tools
