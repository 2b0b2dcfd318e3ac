#include "preload/netlink/forwarding.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/raw_syscall.h"

namespace rrdma::netlink {
namespace {

// Whether the last message ends an answer: of a list, or an acknowledgement.
bool has_end(Octets datagram) {
  bool ends = false;
  for (std::size_t at = 0; at + sizeof(nlmsghdr) <= datagram.size();) {
    const auto length = load_native<std::uint32_t>(datagram.data() + at);
    const auto type = load_native<std::uint16_t>(datagram.data() + at + offsetof(nlmsghdr, nlmsg_type));
    if (length < sizeof(nlmsghdr)) break;
    ends = type == NLMSG_DONE || type == NLMSG_ERROR;
    at += NLMSG_ALIGN(std::size_t{length});
  }
  return ends;
}

bool asks_for_end(Octets question) {
  if (question.size() < sizeof(nlmsghdr)) return false;
  const auto flags = load_native<std::uint16_t>(question.data() + offsetof(nlmsghdr, nlmsg_flags));
  return (flags & NLM_F_DUMP) == NLM_F_DUMP || (flags & NLM_F_ACK) != 0;
}

int send_to_kernel(int kernel, Octets question) {
  sockaddr_nl to{};
  to.nl_family = AF_NETLINK;
  ssize_t sent;
  do {
    sent = raw::sendto(kernel, question.data(), question.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                       sizeof to);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

}  // namespace

std::size_t datagram_max() {
  constexpr std::size_t kMost = 8192;
  return std::min(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), kMost);
}

int forward(int kernel, Octets question, const std::function<void(MutableOctets)>& pass) {
  if (const int error = send_to_kernel(kernel, question); error != 0) return error;
  std::vector<std::uint8_t> room(datagram_max());
  for (bool ends = !asks_for_end(question);;) {
    sockaddr_nl from{};
    socklen_t from_size = sizeof from;
    const ssize_t size = raw::recvfrom(kernel, room.data(), room.size(), MSG_DONTWAIT | MSG_TRUNC,
                                       reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno != EAGAIN) return errno;
    if (size <= 0) return ends ? 0 : EIO;
    // Anybody with the right to do so may send to the socket.
    if (from_size < sizeof from || from.nl_family != AF_NETLINK || from.nl_pid != 0) continue;
    if (static_cast<std::size_t>(size) > room.size()) return EMSGSIZE;
    const MutableOctets datagram(room.data(), static_cast<std::size_t>(size));
    ends = ends || has_end(datagram);
    pass(datagram);
  }
}

}  // namespace rrdma::netlink
