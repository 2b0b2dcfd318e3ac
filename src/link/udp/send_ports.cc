#include "link/udp/send_ports.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <cerrno>

#include "base/result_try.h"
#include "wire/source_port.h"

namespace rrdma::link {
namespace {

constexpr std::uint32_t kPortSpace = 0x10000u - wire::kSourcePortMin;
// If thousands of programs share the ports of a host, a program with one port does not search long for more.
// Entropy is useful, but the last ports should be left to others.
constexpr std::uint32_t kTriesForMore = 64;
constexpr int kReceiveBufferMin = 1;  // the kernel raises it to its minimum

void drop_all_received(int socket) {
  sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog program{.len = 1, .filter = nothing};
  (void)raw::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  (void)raw::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, kReceiveBufferMin);
}

Result<OwnedFd, SocketFailure> open_send_socket(int family, bool checksum, int buffer_octets) {
  OwnedFd socket = lifted(raw::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!socket) return Failure{SocketFailure{"opening a socket to send from", errno}};
  const int fd = socket.get();
  drop_all_received(fd);
  (void)raw::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, buffer_octets);
  // The ICRC covers DF, so these two options are essential. Not _DO: it would trust any ICMP packet about the
  // path, and refuse packets that the interface can send. The path MTU of a QP is the responsibility of its
  // user.
  if (family == AF_INET) {
    if (raw::setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) < 0) {
      return Failure{SocketFailure{"forbidding fragments", errno}};
    }
    if (!checksum) (void)raw::setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, 1);
  } else {
    if (raw::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) < 0 ||
        raw::setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) < 0) {
      return Failure{SocketFailure{"forbidding fragments", errno}};
    }
    if (!checksum) (void)raw::setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1);
  }
  return socket;
}

int bind_to(int socket, int family, std::uint16_t port) {
  if (family == AF_INET) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    return raw::bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  return raw::bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any);
}

// Binds both sockets to `number`. False if the number is taken.
Result<bool, SocketFailure> bind_pair(int family, SendPort& port, std::uint16_t number) {
  if (bind_to(port.plain.get(), family, number) < 0) {
    if (errno == EADDRINUSE || errno == EACCES) return false;
    return Failure{SocketFailure{"binding a source port", errno}};
  }
  port.number = number;
  if (!port.segmenting) return true;
  for (const int fd : {port.plain.get(), port.segmenting.get()}) {
    if (raw::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, 1) < 0)
      return Failure{SocketFailure{"sharing a source port", errno}};
  }
  if (bind_to(port.segmenting.get(), family, number) < 0)
    return Failure{SocketFailure{"sharing a source port", errno}};
  for (const int fd : {port.plain.get(), port.segmenting.get()}) {
    (void)raw::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, 0);
  }
  return true;
}

}  // namespace

Result<SendPorts, SocketFailure> SendPorts::open(int family, const UdpConfig& config, std::uint64_t seed) {
  const bool twins = config.segmentation && config.checksum == UdpChecksum::kAuto;
  SendPorts pool;
  pool.ports_.reserve(config.send_ports);
  std::uint32_t candidate = static_cast<std::uint32_t>(seed % kPortSpace);
  // An odd stride visits every port once and spreads the pool over the bits that switches hash.
  constexpr std::uint32_t kStride = 0x0e39;
  std::uint32_t tried = 0;
  while (pool.ports_.size() < config.send_ports) {
    SendPort port;
    auto plain = open_send_socket(family, false, config.send_buffer_octets);
    RRDMA_TRY(plain);
    port.plain = std::move(*plain);
    if (twins) {
      auto segmenting = open_send_socket(family, true, config.send_buffer_octets);
      RRDMA_TRY(segmenting);
      port.segmenting = std::move(*segmenting);
    }
    bool bound = false;
    const std::uint32_t tries = pool.ports_.empty() ? kPortSpace : kTriesForMore;
    for (; !bound && tried < tries; ++tried, candidate = (candidate + kStride) % kPortSpace) {
      auto outcome = bind_pair(family, port, static_cast<std::uint16_t>(wire::kSourcePortMin + candidate));
      RRDMA_TRY(outcome);
      bound = *outcome;
    }
    if (!bound && !pool.ports_.empty()) break;
    if (!bound) return Failure{SocketFailure{"finding a free source port", EADDRINUSE}};
    pool.ports_.push_back(std::move(port));
  }
  return pool;
}

std::size_t SendPorts::index_for(std::uint16_t wanted) const {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    if (ports_[i].number == wanted) return i;
  }
  return static_cast<std::uint32_t>(wanted * 0x9e3779b1u) * std::uint64_t{ports_.size()} >> 32;
}

}  // namespace rrdma::link
