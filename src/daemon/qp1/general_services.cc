#include "daemon/qp1/general_services.h"

#include <netinet/in.h>

#include <array>
#include <cstring>

namespace rrdma::daemon {
namespace {

constexpr int kDatagramsInOneTurn = 64;

void take_address(const sockaddr_storage& from, control::FrameFields& frame) {
  if (from.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof v4);
    std::array<std::uint8_t, 4> octets;
    std::memcpy(octets.data(), &v4.sin_addr, 4);
    frame.source = wire::gid_of_ipv4(octets);
    frame.source_port = ntohs(v4.sin_port);
  } else {
    sockaddr_in6 v6;
    std::memcpy(&v6, &from, sizeof v6);
    std::memcpy(frame.source.octets.data(), &v6.sin6_addr, 16);
    frame.source_port = ntohs(v6.sin6_port);
  }
}

template <typename T>
T content_of(const cmsghdr* c) {
  T value{};
  std::memcpy(&value, CMSG_DATA(c), sizeof value);
  return value;
}

void take_control(msghdr& message, control::FrameFields& frame) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      const auto info = content_of<in_pktinfo>(c);
      std::array<std::uint8_t, 4> octets;
      std::memcpy(octets.data(), &info.ipi_addr, 4);
      frame.destination = wire::gid_of_ipv4(octets);
      frame.interface_index = static_cast<std::uint32_t>(info.ipi_ifindex);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      const auto info = content_of<in6_pktinfo>(c);
      std::memcpy(frame.destination.octets.data(), &info.ipi6_addr, 16);
      frame.interface_index = info.ipi6_ifindex;
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      frame.traffic_class = content_of<std::uint8_t>(c);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      frame.traffic_class = static_cast<std::uint8_t>(content_of<int>(c));
    }
  }
}

}  // namespace

GeneralServices::~GeneralServices() {
  if (!watches_) return;
  for (const OwnedFd* socket : {&network_.daemon_slot().v4, &network_.daemon_slot().v6})
    loop_.forget(socket->get());
}

Instant GeneralServices::next_deadline() const { return network_.is_up() && !watches_ ? Instant{} : kNever; }

void GeneralServices::handle_deadline(Instant) {
  watches_ = true;
  for (const OwnedFd* socket : {&network_.daemon_slot().v4, &network_.daemon_slot().v6}) {
    if (!socket->valid()) continue;
    const int fd = socket->get();
    loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { receive_from(fd); });
  }
}

void GeneralServices::receive_from(int socket) {
  std::array<std::uint8_t, control::kFrameMax> datagram;
  for (int i = 0; i < kDatagramsInOneTurn; ++i) {
    sockaddr_storage from{};
    iovec content{datagram.data(), datagram.size()};
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = raw::recvmsg(socket, &message, MSG_DONTWAIT);
    if (size < 0) return;
    counters_.add("frames.received");
    if ((message.msg_flags & MSG_TRUNC) != 0) {
      counters_.add("frames.too_long");
      continue;
    }
    control::FrameFields frame;
    take_address(from, frame);
    take_control(message, frame);
    frame.frame.assign(datagram.begin(), datagram.begin() + size);
    server_.deliver_frame(frame);
  }
}

}  // namespace rrdma::daemon
