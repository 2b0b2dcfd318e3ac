#include "daemon/slots/slot_socket.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "wire/udp.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace rrdma::daemon {
namespace {

// BTH: opcode, flags, P_Key (2), FECN/BECN/reserved, DestQP (3).
constexpr unsigned kDestQpOffset = 5;
constexpr unsigned kBitsBehind = 8;  // of the QPN, behind the 16 that are examined
// A drain ends even if datagrams keep arriving: the new holder ignores them.
constexpr std::uint64_t kDrainMax = 32'768;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address any_address(int family) {
  Address address;
  if (family == AF_INET) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(wire::kRoceUdpPort);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.size = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(wire::kRoceUdpPort);
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.size = sizeof v6;
  }
  return address;
}

int option_of(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return raw::getsockopt(socket, level, name, &value, &size) == 0 ? value : -1;
}

// 0 if the kernel has no such cookie (before 5.14).
std::uint64_t namespace_cookie(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return raw::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

Result<OwnedFd, int> bind_slot_socket(int family, bool is_first) {
  OwnedFd socket = lifted(raw::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!socket) return Failure{errno};
  if (family == AF_INET6 && raw::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1) < 0)
    return Failure{errno};
  if (!is_first && raw::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1) < 0) return Failure{errno};
  prepare_slot_socket(socket.get(), family, kFreeReceiveBuffer);
  const Address any = any_address(family);
  if (raw::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any.storage), any.size) < 0)
    return Failure{errno};
  if (is_first && raw::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1) < 0) return Failure{errno};
  return socket;
}

int steer_group(int socket, unsigned slots_bound) {
  // The upper 16 bits of the QPN determine the slot, whatever its size; see control::slot_of_qpn().
  static_assert(control::kSmallSlots.qpn_bits >= kBitsBehind);
  using control::kLargeSlots, control::kMediumSlots, control::kSmallSlots;
  // The difference between a shifted QPN and its slot.
  constexpr unsigned kMediumBias =
      (kMediumSlots.first_qpn >> kMediumSlots.qpn_bits) - kMediumSlots.first_slot;
  constexpr unsigned kSmallBias = (kSmallSlots.first_qpn >> kSmallSlots.qpn_bits) - kSmallSlots.first_slot;
  sock_filter program[] = {
      /*  0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kDestQpOffset),  // a load beyond the end returns 0
      /*  1 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kSmallSlots.first_qpn >> kBitsBehind, 6, 0),
      /*  2 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kMediumSlots.first_qpn >> kBitsBehind, 2, 0),
      /*  3 */ BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kLargeSlots.qpn_bits - kBitsBehind),
      /*  4 */ BPF_STMT(BPF_JMP | BPF_JA, 5),
      /*  5 */ BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kMediumSlots.qpn_bits - kBitsBehind),
      /*  6 */ BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, kMediumBias),
      /*  7 */ BPF_STMT(BPF_JMP | BPF_JA, 2),
      /*  8 */ BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kSmallSlots.qpn_bits - kBitsBehind),
      /*  9 */ BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, kSmallBias),
      /* 10 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, slots_bound, 1, 0),
      /* 11 */ BPF_STMT(BPF_RET | BPF_A, 0),
      /* 12 */ BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog attached{.len = std::size(program), .filter = program};
  return raw::setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &attached, sizeof attached) < 0 ? errno
                                                                                                       : 0;
}

void lock_steering(int socket) { (void)raw::setsockopt(socket, SOL_SOCKET, SO_LOCK_FILTER, 1); }

void prepare_slot_socket(int socket, int family, int receive_buffer) {
  // Each of these is a convenience or a defence; a kernel that lacks one still carries packets.
  if (raw::setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, receive_buffer) < 0) {
    (void)raw::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, receive_buffer);
  }
  (void)raw::setsockopt(socket, IPPROTO_UDP, UDP_GRO, 1);
  if (family == AF_INET) {
    (void)raw::setsockopt(socket, IPPROTO_IP, IP_PKTINFO, 1);
    (void)raw::setsockopt(socket, IPPROTO_IP, IP_RECVTOS, 1);
    (void)raw::setsockopt(socket, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    (void)raw::setsockopt(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  } else {
    (void)raw::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    (void)raw::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    (void)raw::setsockopt(socket, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    (void)raw::setsockopt(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    (void)raw::setsockopt(socket, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
  }
}

std::uint64_t drain_slot_socket(int socket) {
  std::uint64_t drained = 0;
  while (drained < kDrainMax &&
         raw::recvfrom(socket, nullptr, 0, MSG_DONTWAIT | MSG_TRUNC, nullptr, nullptr) >= 0) {
    ++drained;
  }
  return drained;
}

bool is_slot_socket(int socket, int family) {
  if (option_of(socket, SOL_SOCKET, SO_DOMAIN) != family) return false;
  if (option_of(socket, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_UDP) return false;
  if (option_of(socket, SOL_SOCKET, SO_REUSEPORT) != 1) return false;
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  // The port is at the same offset in both families.
  if (raw::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) < 0) return false;
  if (address.sin6_port != htons(wire::kRoceUdpPort)) return false;
  static const std::uint64_t own_cookie =
      namespace_cookie(OwnedFd(raw::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)).get());
  return namespace_cookie(socket) == own_cookie;
}

}  // namespace rrdma::daemon
