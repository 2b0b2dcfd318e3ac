// For tests and benchmarks: a private network namespace with a loopback device, created without privilege,
// and sockets of port 4791 in it as the daemon would pass them. No packet leaves the process.
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/owned_fd.h"
#include "link/udp/udp_link.h"
#include "wire/gid.h"
#include "wire/udp.h"

namespace rrdma::link::private_network {

inline bool write_file(const char* path, const std::string& text) {
  const OwnedFd file(raw::open(path, O_WRONLY | O_CLOEXEC));
  return file && raw::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// 127.0.0.host, or fd00::host.
inline wire::Gid address_of(int family, std::uint8_t host) {
  if (family == AF_INET) return wire::gid_of_ipv4({127, 0, 0, host});
  wire::Gid gid;
  gid.octets[0] = 0xfd;
  gid.octets[15] = host;
  return gid;
}

// Returns when the address is usable: a new one is tentative for a moment.
inline bool add_ipv6(const char* device, const wire::Gid& address, std::uint32_t prefix_bits) {
  struct {
    in6_addr address;
    std::uint32_t prefix_bits;
    int interface_index;
  } request{};  // the kernel's in6_ifreq; its header clashes with the C library's
  std::memcpy(&request.address, address.octets.data(), 16);
  request.prefix_bits = prefix_bits;
  request.interface_index = static_cast<int>(if_nametoindex(device));
  const OwnedFd v6(raw::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!v6) return true;
  if (ioctl(v6.get(), SIOCSIFADDR, &request) < 0 && errno != EEXIST) return false;
  sockaddr_in6 any_port{};
  any_port.sin6_family = AF_INET6;
  any_port.sin6_addr = request.address;
  for (int tries = 0; tries < 3000; ++tries, usleep(1000)) {
    if (raw::bind(v6.get(), reinterpret_cast<const sockaddr*>(&any_port), sizeof any_port) == 0) return true;
  }
  return false;
}

// Moves the calling process, which must have one thread, into a new network namespace with 127.0.0.0/8, ::1,
// fd00::1 and fd00::2 on the loopback device. False (with errno) if the system forbids it.
inline bool enter() {
  const unsigned uid = getuid();
  const unsigned gid = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) return false;
  (void)write_file("/proc/self/setgroups", "deny");
  if (!write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1\n")) return false;
  if (!write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1\n")) return false;
  const OwnedFd v4(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq device{};
  std::strcpy(device.ifr_name, "lo");
  if (ioctl(v4.get(), SIOCGIFFLAGS, &device) < 0) return false;
  device.ifr_flags = static_cast<short>(device.ifr_flags | IFF_UP);
  if (ioctl(v4.get(), SIOCSIFFLAGS, &device) < 0) return false;
  return add_ipv6("lo", address_of(AF_INET6, 1), 128) && add_ipv6("lo", address_of(AF_INET6, 2), 128);
}

// A receiving socket, bound to this address (zero: all) and port 4791.
inline OwnedFd slot_socket_at(int family, const wire::Gid& gid, int receive_buffer = 4 << 20) {
  OwnedFd socket(raw::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  const int fd = socket.get();
  (void)raw::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, receive_buffer);
  (void)raw::setsockopt(fd, IPPROTO_UDP, UDP_GRO, 1);
  int bound = -1;
  if (family == AF_INET) {
    (void)raw::setsockopt(fd, IPPROTO_IP, IP_PKTINFO, 1);
    (void)raw::setsockopt(fd, IPPROTO_IP, IP_RECVTOS, 1);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(wire::kRoceUdpPort);
    std::memcpy(&address.sin_addr, gid.octets.data() + 12, 4);
    bound = raw::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } else {
    (void)raw::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    (void)raw::setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    (void)raw::setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    (void)raw::setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(wire::kRoceUdpPort);
    std::memcpy(&address.sin6_addr, gid.octets.data(), 16);
    bound = raw::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  if (bound < 0) std::perror("bind to port 4791");
  return socket;
}

inline OwnedFd slot_socket(int family, std::uint8_t host, int receive_buffer = 4 << 20) {
  return slot_socket_at(family, address_of(family, host), receive_buffer);
}

}  // namespace rrdma::link::private_network
