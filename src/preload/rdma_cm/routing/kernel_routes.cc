#include "preload/rdma_cm/routing/kernel_routes.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/owned_fd.h"

namespace rrdma::rdma_cm {
namespace {

constexpr std::uint16_t kDiscardPort = 9;
constexpr std::size_t kAnswerOctets = 8192;
constexpr int kAnswerSeconds = 1;

int family_of(const IpAddress& address) { return address.family == Family::kIpv4 ? AF_INET : AF_INET6; }

std::span<const std::uint8_t> octets_of(const IpAddress& address) {
  const auto& octets = address.gid.octets;
  return address.family == Family::kIpv4 ? std::span(octets).subspan(12) : std::span(octets);
}

IpAddress address_from(int family, const void* octets) {
  IpAddress address{.family = family == AF_INET ? Family::kIpv4 : Family::kIpv6};
  if (family == AF_INET) {
    std::array<std::uint8_t, 4> v4;
    std::memcpy(v4.data(), octets, 4);
    address.gid = wire::gid_of_ipv4(v4);
  } else {
    std::memcpy(address.gid.octets.data(), octets, 16);
  }
  return address;
}

// One rtnetlink request and its answer.
template <typename Header>
class Question {
 public:
  Question(std::uint16_t type, const Header& header) {
    message_.head.nlmsg_type = type;
    message_.head.nlmsg_flags = NLM_F_REQUEST;
    message_.head.nlmsg_len = NLMSG_LENGTH(sizeof(Header));
    message_.header = header;
  }

  void add(std::uint16_t type, std::span<const std::uint8_t> value) {
    auto* at = reinterpret_cast<std::uint8_t*>(&message_) + NLMSG_ALIGN(message_.head.nlmsg_len);
    const rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(value.size())), type};
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value.data(), value.size());
    message_.head.nlmsg_len =
        static_cast<std::uint32_t>(NLMSG_ALIGN(message_.head.nlmsg_len) + RTA_ALIGN(attribute.rta_len));
  }

  // Returns 0 or an errno; after 0, header() and find() read the answer.
  int ask() {
    const OwnedFd socket = lifted(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket) return errno;
    const timeval patience{kAnswerSeconds, 0};
    raw::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const sockaddr_nl kernel{.nl_family = AF_NETLINK};
    if (raw::sendto(socket.get(), &message_, message_.head.nlmsg_len, 0,
                    reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0)
      return errno;
    const ssize_t size = raw::recvfrom(socket.get(), answer_.data(), answer_.size(), 0, nullptr, nullptr);
    if (size < 0) return errno;
    const auto* head = reinterpret_cast<const nlmsghdr*>(answer_.data());
    if (!NLMSG_OK(head, static_cast<std::size_t>(size))) return EPROTO;
    if (head->nlmsg_type == NLMSG_ERROR)
      return -reinterpret_cast<const nlmsgerr*>(answer_.data() + NLMSG_HDRLEN)->error;
    return head->nlmsg_len >= NLMSG_LENGTH(sizeof(Header)) ? 0 : EPROTO;
  }

  [[nodiscard]] const Header& header() const {
    return *reinterpret_cast<const Header*>(answer_.data() + NLMSG_HDRLEN);
  }

  // The value of an attribute of at least `size` bytes, or null.
  [[nodiscard]] const void* find(std::uint16_t type, std::size_t size) const {
    const auto* head = reinterpret_cast<const nlmsghdr*>(answer_.data());
    auto left = static_cast<int>(head->nlmsg_len - NLMSG_LENGTH(sizeof(Header)));
    const auto* at = answer_.data() + NLMSG_LENGTH(sizeof(Header));
    for (auto* one = reinterpret_cast<const rtattr*>(at); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
      if (one->rta_type == type && RTA_PAYLOAD(one) >= size) return RTA_DATA(one);
    }
    return nullptr;
  }

 private:
  struct {
    nlmsghdr head{};
    Header header{};
    std::array<std::uint8_t, 128> attributes{};
  } message_;
  alignas(nlmsghdr) std::array<std::uint8_t, kAnswerOctets> answer_{};
};

// An IPv4 route with an IPv6 next hop uses another attribute.
IpAddress gateway_of(const Question<rtmsg>& question, const IpAddress& destination) {
  const std::size_t size = destination.family == Family::kIpv4 ? 4 : 16;
  if (const void* gateway = question.find(RTA_GATEWAY, size))
    return address_from(family_of(destination), gateway);
  if (const auto* via = static_cast<const rtvia*>(question.find(RTA_VIA, sizeof(rtvia) + 16));
      via != nullptr && via->rtvia_family == AF_INET6)
    return address_from(AF_INET6, via->rtvia_addr);
  return destination;
}

// Loopback, tunnels and similar interfaces have no neighbours.
bool has_neighbours(std::uint32_t interface_index) {
  ifreq request{};
  const OwnedFd socket = lifted(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || if_indextoname(interface_index, request.ifr_name) == nullptr) return true;
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return true;
  return (request.ifr_flags & (IFF_LOOPBACK | IFF_NOARP)) == 0;
}

}  // namespace

Result<KernelRoute, int> ask_kernel_route(const IpAddress& source, const IpAddress& destination,
                                          std::uint32_t interface_index) {
  const auto width = static_cast<std::uint8_t>(destination.family == Family::kIpv4 ? 32 : 128);
  rtmsg header{};
  header.rtm_family = static_cast<std::uint8_t>(family_of(destination));
  header.rtm_dst_len = width;
  header.rtm_src_len = source.is_any() ? std::uint8_t{0} : width;
  Question<rtmsg> question(RTM_GETROUTE, header);
  question.add(RTA_DST, octets_of(destination));
  if (!source.is_any()) question.add(RTA_SRC, octets_of(source));
  if (interface_index != 0)
    question.add(RTA_OIF, {reinterpret_cast<const std::uint8_t*>(&interface_index), sizeof interface_index});
  if (const int error = question.ask(); error != 0) return Failure{error};

  KernelRoute route{.source = source, .interface_index = interface_index, .next_hop = std::nullopt};
  if (const void* index = question.find(RTA_OIF, sizeof(std::uint32_t)))
    std::memcpy(&route.interface_index, index, sizeof route.interface_index);
  const std::size_t size = destination.family == Family::kIpv4 ? 4 : 16;
  if (const void* chosen = question.find(RTA_PREFSRC, size); chosen != nullptr && source.is_any())
    route.source = address_from(family_of(destination), chosen);
  if (question.header().rtm_type == RTN_UNICAST && has_neighbours(route.interface_index))
    route.next_hop = NextHop{gateway_of(question, destination), route.interface_index, source};
  return route;
}

NeighbourState state_of_neighbour(const NextHop& hop) {
  ndmsg header{};
  header.ndm_family = static_cast<std::uint8_t>(family_of(hop.address));
  header.ndm_ifindex = static_cast<int>(hop.interface_index);
  Question<ndmsg> question(RTM_GETNEIGH, header);
  question.add(NDA_DST, octets_of(hop.address));
  const int error = question.ask();
  if (error == ENOENT) return NeighbourState::kUnknown;
  if (error != 0) return NeighbourState::kKnown;  // old kernels only answer dumps
  constexpr unsigned kUsable = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
  const unsigned state = question.header().ndm_state;
  if ((state & kUsable) != 0) return NeighbourState::kKnown;
  return (state & NUD_INCOMPLETE) != 0 ? NeighbourState::kSought : NeighbourState::kUnknown;
}

void seek_neighbour(const NextHop& hop) {
  const bool ipv4 = hop.address.family == Family::kIpv4;
  const OwnedFd socket = lifted(raw::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  raw::setsockopt(socket.get(), ipv4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, ipv4 ? IP_TTL : IPV6_UNICAST_HOPS,
                  1);
  IpAddress to = hop.address;
  to.port = kDiscardPort;
  to.scope = hop.interface_index;
  sockaddr_storage storage;
  const auto size = static_cast<socklen_t>(emit_sockaddr(to, &storage));
  // Set the interface explicitly: the address may be on a link that no route leads to.
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(in6_pktinfo))> control{};
  msghdr message{};
  message.msg_name = &storage;
  message.msg_namelen = size;
  message.msg_control = control.data();
  message.msg_controllen = ipv4 ? CMSG_SPACE(sizeof(in_pktinfo)) : CMSG_SPACE(sizeof(in6_pktinfo));
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (ipv4) {
    in_pktinfo info{};
    info.ipi_ifindex = static_cast<int>(hop.interface_index);
    if (!hop.source.is_any()) std::memcpy(&info.ipi_spec_dst, octets_of(hop.source).data(), 4);
    head->cmsg_level = IPPROTO_IP;
    head->cmsg_type = IP_PKTINFO;
    head->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(head), &info, sizeof info);
  } else {
    in6_pktinfo info{};
    info.ipi6_ifindex = hop.interface_index;
    head->cmsg_level = IPPROTO_IPV6;
    head->cmsg_type = IPV6_PKTINFO;
    head->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(head), &info, sizeof info);
  }
  static_cast<void>(raw::sendmsg(socket.get(), &message, MSG_DONTWAIT));
}

}  // namespace rrdma::rdma_cm
