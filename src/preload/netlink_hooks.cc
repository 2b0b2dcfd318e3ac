// Hooks of the C library functions through which programs ask the kernel about RDMA devices by netlink:
// socket, and the calls that send. Sockets of other protocols go on to the next definition.
#include <sys/socket.h>

#include <vector>

#include "base/next_symbol.h"
#include "base/raw_syscall.h"
#include "preload/netlink/rdma_socket.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

using rrdma::NextSymbol;
namespace door = rrdma::netlink;

constinit NextSymbol<int(int, int, int)> next_socket("socket");
constinit NextSymbol<ssize_t(int, const void*, size_t, int)> next_send("send");
constinit NextSymbol<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)> next_sendto(
    "sendto");
constinit NextSymbol<ssize_t(int, const msghdr*, int)> next_sendmsg("sendmsg");

__attribute__((constructor)) void look_up_all() {
  static_cast<void>(*next_socket);
  static_cast<void>(*next_send);
  static_cast<void>(*next_sendto);
  static_cast<void>(*next_sendmsg);
}

bool is_question(int fd) { return door::may_be_one(fd) && door::is_one(fd); }

ssize_t ask(int fd, const void* data, size_t size) {
  return door::ask(fd, {static_cast<const std::uint8_t*>(data), size});
}

}  // namespace

RRDMA_HOOK int socket(int domain, int type, int protocol) noexcept {
  return door::is_rdma(domain, protocol) ? door::open_socket(type) : (*next_socket)(domain, type, protocol);
}

RRDMA_HOOK ssize_t send(int fd, const void* data, size_t size, int flags) {
  return is_question(fd) ? ask(fd, data, size) : (*next_send)(fd, data, size, flags);
}

RRDMA_HOOK ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to,
                          socklen_t to_size) {
  return is_question(fd) ? ask(fd, data, size) : (*next_sendto)(fd, data, size, flags, to, to_size);
}

RRDMA_HOOK ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!is_question(fd)) return (*next_sendmsg)(fd, message, flags);
  std::vector<std::uint8_t> whole;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    const auto* from = static_cast<const std::uint8_t*>(message->msg_iov[i].iov_base);
    whole.insert(whole.end(), from, from + message->msg_iov[i].iov_len);
  }
  return ask(fd, whole.data(), whole.size());
}
