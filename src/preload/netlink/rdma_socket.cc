#include "preload/netlink/rdma_socket.h"

#include <linux/netlink.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/descriptor_set.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "nic/process/runtime.h"
#include "preload/files/excepted.h"
#include "preload/files/redirect.h"
#include "preload/netlink/nldev.h"

namespace rrdma::netlink {
namespace {

constinit DescriptorSet open_sockets;

constexpr std::size_t kDatagramMax = 4096;  // libmnl's buffer is a page
// Our devices come behind the kernel's, whose numbers are small.
constexpr std::uint32_t kFirstBesideKernel = 1000;

sockaddr_nl address_of(std::uint32_t port) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_pid = port;
  return address;
}

const sockaddr* generic(const sockaddr_nl& address) { return reinterpret_cast<const sockaddr*>(&address); }

// 0: the socket has none yet.
std::uint32_t port_of(int fd) {
  sockaddr_nl address{};
  socklen_t size = sizeof address;
  return raw::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.nl_pid : 0;
}

// The socket that answers, one for the process. A forked child that closed it opens another.
int responder() {
  static OwnedFd socket;
  if (socket && port_of(socket.get()) != 0) return socket.get();
  socket = lifted(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  const sockaddr_nl any = address_of(0);
  if (socket) static_cast<void>(raw::bind(socket.get(), generic(any), sizeof any));
  return socket.get();
}

// Lets the program's socket hear the responder alone. Drops everything that others sent before.
bool connect_once(int fd, int to) {
  const std::uint32_t port = port_of(to);
  sockaddr_nl peer{};
  socklen_t size = sizeof peer;
  if (::syscall(SYS_getpeername, fd, &peer, &size) == 0 && peer.nl_pid == port) return true;
  const sockaddr_nl address = address_of(port);
  if (port == 0 || raw::connect(fd, generic(address), sizeof address) != 0) return false;
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
      if (datagram_.size() + message.size() > kDatagramMax) flush();
      datagram_.insert(datagram_.end(), message.begin(), message.end());
    }
  }
  void flush() {
    if (!datagram_.empty()) send(datagram_);
    datagram_.clear();
  }
  void send(Octets datagram) {
    static_cast<void>(
        raw::sendto(from_, datagram.data(), datagram.size(), MSG_DONTWAIT, generic(to_), sizeof to_));
  }

 private:
  int from_;
  sockaddr_nl to_;
  std::vector<std::uint8_t> datagram_;
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

// Asks the kernel and passes on what it answers. It does so within the calls.
void forward(int kernel, Octets question, Answer& answer, std::uint32_t port) {
  const sockaddr_nl to = address_of(0);
  if (raw::sendto(kernel, question.data(), question.size(), 0, generic(to), sizeof to) < 0) return;
  std::vector<std::uint8_t> datagram(32768);
  for (;;) {
    const ssize_t size =
        raw::recvfrom(kernel, datagram.data(), datagram.size(), MSG_DONTWAIT, nullptr, nullptr);
    if (size <= 0) return;
    const MutableOctets part(datagram.data(), static_cast<std::size_t>(size));
    readdress(part, port);
    answer.send(part);
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
  int domain = 0, protocol = 0;
  socklen_t size = sizeof domain;
  const bool is_ours =
      raw::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK &&
      raw::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == NETLINK_USERSOCK;
  if (!is_ours) open_sockets.remove(fd);
  return is_ours;
}

ssize_t ask(int fd, Octets datagram) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
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
    forward(kernel.get(), datagram, answer, port);
  } else {
    const bool names_another = question->device && !own.has(*question->device);
    answer.add(end_of_answer(*question, is_ours ? 0 : names_another ? ENODEV : EOPNOTSUPP));
    answer.flush();
  }
  return static_cast<ssize_t>(datagram.size());
}

}  // namespace rrdma::netlink
