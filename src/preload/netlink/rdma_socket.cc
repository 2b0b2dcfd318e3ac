#include "preload/netlink/rdma_socket.h"

#include <linux/netlink.h>
#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "base/descriptor_set.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "nic/process/runtime.h"
#include "preload/files/excepted.h"
#include "preload/files/redirect.h"
#include "preload/netlink/forwarding.h"
#include "preload/netlink/nldev.h"

namespace rrdma::netlink {
namespace {

constinit DescriptorSet open_sockets;

// Our devices come behind the kernel's, whose numbers are small.
constexpr std::uint32_t kFirstBesideKernel = 1000;

sockaddr_nl address_of(std::uint32_t port) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_pid = port;
  return address;
}

const sockaddr* generic(const sockaddr_nl& address) { return reinterpret_cast<const sockaddr*>(&address); }

// 0: the socket has none yet, or is no netlink socket.
std::uint32_t port_of(int fd) {
  sockaddr_nl address{};
  socklen_t size = sizeof address;
  const bool is_known = raw::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                        address.nl_family == AF_NETLINK;
  return is_known ? address.nl_pid : 0;
}

std::mutex asking;
OwnedFd responding;  // under the mutex

// A thread that asked during a fork does not exist in the child, and would never release the mutex there.
void follow_forks() {
  static const bool registered = pthread_atfork(nullptr, nullptr, [] { new (&asking) std::mutex; }) == 0;
  static_cast<void>(registered);
}

bool is_of_users(int fd) {
  int domain = 0, protocol = 0;
  socklen_t size = sizeof domain;
  return raw::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK &&
         raw::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == NETLINK_USERSOCK;
}

// The socket that answers, one for the process. A forked child may have closed it, and opened something else
// that has its number now.
int responder() {
  if (responding && is_of_users(responding.get()) && port_of(responding.get()) != 0) return responding.get();
  static_cast<void>(responding.release());
  responding = lifted(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  const sockaddr_nl any = address_of(0);
  if (responding) static_cast<void>(raw::bind(responding.get(), generic(any), sizeof any));
  return responding.get();
}

// Lets the program's socket hear the responder alone. Drops everything that others sent before.
bool connect_once(int fd, int to) {
  const std::uint32_t port = port_of(to);
  if (port == 0) return false;
  sockaddr_nl peer{};
  socklen_t size = sizeof peer;
  if (::syscall(SYS_getpeername, fd, &peer, &size) == 0 && peer.nl_family == AF_NETLINK &&
      peer.nl_pid == port)
    return true;
  const sockaddr_nl address = address_of(port);
  if (raw::connect(fd, generic(address), sizeof address) != 0) return false;
  char octet = 0;
  while (raw::recvfrom(fd, &octet, 1, MSG_DONTWAIT | MSG_TRUNC, nullptr, nullptr) >= 0) {
  }
  return true;
}

// Sends messages in datagrams that a reader's buffer holds.
class Answer {
 public:
  Answer(int from, std::uint32_t to) : from_(from), to_(address_of(to)) {}
  void add(const Messages& messages) {
    for (const auto& message : messages) {
      if (datagram_.size() + message.size() > datagram_max()) flush();
      datagram_.insert(datagram_.end(), message.begin(), message.end());
    }
  }
  void flush() {
    if (!datagram_.empty()) send(datagram_);
    datagram_.clear();
  }
  void send(Octets datagram) {
    const ssize_t sent =
        raw::sendto(from_, datagram.data(), datagram.size(), MSG_DONTWAIT, generic(to_), sizeof to_);
    if (sent < 0 && error_ == 0) error_ = errno;
  }
  // 0, or why a part could not be sent.
  [[nodiscard]] int error() const { return error_; }

 private:
  int from_;
  sockaddr_nl to_;
  std::vector<std::uint8_t> datagram_;
  int error_ = 0;
};

// The messages in the datagram are for that port.
void readdress(MutableOctets datagram, std::uint32_t port) {
  for (std::size_t at = 0; at + sizeof(nlmsghdr) <= datagram.size();) {
    const auto length = load_native<std::uint32_t>(datagram.data() + at);
    std::memcpy(datagram.data() + at + offsetof(nlmsghdr, nlmsg_pid), &port, sizeof port);
    if (length < sizeof(nlmsghdr)) return;
    at += NLMSG_ALIGN(length);
  }
}

}  // namespace

bool is_rdma(int domain, int protocol) {
  return domain == AF_NETLINK && protocol == NETLINK_RDMA && !files::reads_machine_files() &&
         !files::is_excepted();
}

int open_socket(int type) {
  const int fd = raw::socket(AF_NETLINK, type, NETLINK_USERSOCK);
  if (fd >= 0) open_sockets.add(fd);
  return fd;
}

bool may_be_one(int fd) { return open_sockets.contains(fd); }

bool is_one(int fd) {
  if (is_of_users(fd)) return true;
  open_sockets.remove(fd);
  return false;
}

ssize_t ask(int fd, Octets datagram) {
  follow_forks();
  const std::lock_guard lock(asking);
  auto question = parse_question(datagram);
  if (!question) {
    errno = EINVAL;
    return -1;
  }
  const int from = responder();
  if (!connect_once(fd, from)) {
    errno = ENOBUFS;
    return -1;
  }
  const std::uint32_t port = port_of(fd);
  question->sender = port;
  const bool hidden = nic::Runtime::instance().settings().kernel_devices == nic::KernelDevices::kHidden;
  const OwnedFd kernel =
      hidden ? OwnedFd() : lifted(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
  const files::MachineFiles machine;
  const auto views = files::view_devices();
  OwnDevices own{.views = {}, .first_index = kernel ? kFirstBesideKernel : 0};
  if (views) own.views = *views;
  Answer answer(from, port);
  const bool is_ours = concerns(*question, own);
  if (is_ours) answer.add(describe(*question, own));
  // The kernel knows nothing of a device of ours.
  if (kernel && !(question->device && own.has(*question->device))) {
    answer.flush();
    const int error = forward(kernel.get(), datagram, [&](MutableOctets part) {
      readdress(part, port);
      answer.send(part);
    });
    if (error != 0) answer.add(end_of_answer(*question, error));
    answer.flush();
  } else {
    const bool names_another = question->device && !own.has(*question->device);
    answer.add(end_of_answer(*question, is_ours ? 0 : names_another ? ENODEV : EOPNOTSUPP));
    answer.flush();
  }
  if (answer.error() != 0) {
    errno = answer.error();
    return -1;
  }
  return static_cast<ssize_t>(datagram.size());
}

}  // namespace rrdma::netlink
