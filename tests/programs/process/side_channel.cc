#include "side_channel.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "verdict.h"

namespace proof {
namespace {

constexpr double kConnectSeconds = 20;
constexpr long kSilenceSeconds = 120;

struct AddressFree {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressFree>;

Addresses resolve(const char* host, const char* port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = host == nullptr ? AF_INET6 : AF_UNSPEC;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (host == nullptr ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host, port, &hints, &list); error != 0)
    fail(std::string("address: ") + ::gai_strerror(error));
  return Addresses(list);
}

int accept_one(const std::string& port) {
  const Addresses address = resolve(nullptr, port.c_str());
  const int listener = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener, address->ai_addr, address->ai_addrlen) != 0) fail_errno("bind to port " + port);
  if (::listen(listener, 1) != 0) fail_errno("listen");
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) fail_errno("accept");
  ::close(listener);
  return fd;
}

int connect_to(const std::string& host, const std::string& port) {
  const Addresses address = resolve(host.c_str(), port.c_str());
  const double until = monotonic_seconds() + kConnectSeconds;
  for (;;) {
    const int fd = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, address->ai_addr, address->ai_addrlen) == 0) return fd;
    if (monotonic_seconds() > until) fail_errno("connect to " + host + " port " + port);
    ::close(fd);
    ::usleep(10'000);
  }
}

}  // namespace

SideChannel SideChannel::open(Arguments& arguments) {
  const std::string port = arguments.text("listen");
  const std::string remote = arguments.text("connect");
  if (port.empty() == remote.empty()) fail("give either --listen=PORT or --connect=ADDRESS,PORT");
  const auto comma = remote.rfind(',');
  const int fd =
      port.empty() ? connect_to(remote.substr(0, comma), remote.substr(comma + 1)) : accept_one(port);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval patience{.tv_sec = kSilenceSeconds, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return {fd, port.empty() ? 1u : 0u};
}

SideChannel::~SideChannel() {
  if (fd_ >= 0) ::close(fd_);
}

void SideChannel::send(const void* octets, std::size_t count) {
  const char* at = static_cast<const char*>(octets);
  while (count != 0) {
    const ssize_t sent = ::send(fd_, at, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail_errno("side channel, sending");
    at += sent;
    count -= static_cast<std::size_t>(sent);
  }
}

bool SideChannel::try_receive(void* octets, std::size_t count) {
  char* at = static_cast<char*>(octets);
  while (count != 0) {
    const ssize_t got = ::recv(fd_, at, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

void SideChannel::receive(void* octets, std::size_t count) {
  if (!try_receive(octets, count)) fail("side channel: the other end is gone or silent");
}

}  // namespace proof
