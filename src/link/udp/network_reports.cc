#include "link/udp/network_reports.h"

#include <netinet/in.h>  // first: then the kernel's headers use its types

#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include <algorithm>
#include <cstring>

#include "base/raw_syscall.h"

namespace rrdma::link {
namespace {

using Kind = NetworkReport::Kind;

constexpr std::uint8_t kIpv6PolicyFailed = 5;  // RFC 4443, 3.1; the headers lack names for these two
constexpr std::uint8_t kIpv6Rejected = 6;

Kind kind_of_ipv4(std::uint8_t type, std::uint8_t code) {
  if (type == ICMP_TIME_EXCEEDED) return code == ICMP_EXC_TTL ? Kind::kHopsExceeded : Kind::kNone;
  if (type != ICMP_DEST_UNREACH) return Kind::kNone;
  switch (code) {
    case ICMP_PORT_UNREACH: return Kind::kPortClosed;
    case ICMP_FRAG_NEEDED: return Kind::kTooLong;
    case ICMP_NET_ANO:
    case ICMP_HOST_ANO:
    case ICMP_PKT_FILTERED:
    case ICMP_PREC_VIOLATION: return Kind::kForbidden;
    default: return Kind::kUnreachable;
  }
}

Kind kind_of_ipv6(std::uint8_t type, std::uint8_t code) {
  if (type == ICMPV6_TIME_EXCEED) return code == ICMPV6_EXC_HOPLIMIT ? Kind::kHopsExceeded : Kind::kNone;
  if (type == ICMPV6_PKT_TOOBIG) return Kind::kTooLong;
  if (type != ICMPV6_DEST_UNREACH) return Kind::kNone;
  switch (code) {
    case ICMPV6_PORT_UNREACH: return Kind::kPortClosed;
    case ICMPV6_ADM_PROHIBITED:
    case kIpv6PolicyFailed:
    case kIpv6Rejected: return Kind::kForbidden;
    default: return Kind::kUnreachable;
  }
}

// Not of sockaddr*: the kernel's structures are copied, as their place may be unaligned.
wire::Gid gid_at(const void* address) {
  sa_family_t family = AF_UNSPEC;
  std::memcpy(&family, address, sizeof family);
  if (family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    std::array<std::uint8_t, 4> octets{};
    std::memcpy(octets.data(), &v4.sin_addr, octets.size());
    return wire::gid_of_ipv4(octets);
  }
  wire::Gid gid;
  if (family != AF_INET6) return gid;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  std::memcpy(gid.octets.data(), &v6.sin6_addr, gid.octets.size());
  return gid;
}

// The reports of the kernel's error queue have their values in a control message.
NetworkReport report_in(msghdr& message) {
  NetworkReport report;
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(&message, control)) {
    const bool ours = (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_RECVERR) ||
                      (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_RECVERR);
    if (!ours || control->cmsg_len < CMSG_LEN(sizeof(sock_extended_err) + sizeof(sockaddr_in))) continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(control), sizeof error);
    if (error.ee_origin == SO_EE_ORIGIN_ICMP) report.kind = kind_of_ipv4(error.ee_type, error.ee_code);
    if (error.ee_origin == SO_EE_ORIGIN_ICMP6) report.kind = kind_of_ipv6(error.ee_type, error.ee_code);
    report.mtu = report.kind == Kind::kTooLong ? error.ee_info : 0;
    if (error.ee_origin == SO_EE_ORIGIN_ICMP ||
        control->cmsg_len >= CMSG_LEN(sizeof error + sizeof(sockaddr_in6)))
      report.reporter = gid_at(CMSG_DATA(control) + sizeof error);
  }
  return report;
}

}  // namespace

NetworkReports::NetworkReports(const SendPorts& ipv4, const SendPorts& ipv6) {
  const auto add = [this](int socket, int level, int name) {
    if (raw::setsockopt(socket, level, name, 1) == 0) sockets_.push_back(socket);
  };
  for (const SendPort& port : ipv4.ports()) {
    add(port.plain.get(), IPPROTO_IP, IP_RECVERR);
    if (port.segmenting) add(port.segmenting.get(), IPPROTO_IP, IP_RECVERR);
  }
  for (const SendPort& port : ipv6.ports()) {
    add(port.plain.get(), IPPROTO_IPV6, IPV6_RECVERR);
    if (port.segmenting) add(port.segmenting.get(), IPPROTO_IPV6, IPV6_RECVERR);
  }
}

void NetworkReports::collect(Instant now) {
  for (const int socket : sockets_) read_queue(socket, now);
}

void NetworkReports::read_queue(int socket, Instant now) {
  for (int i = 0; i < kReadMax; ++i) {
    sockaddr_in6 destination{};  // large enough for both families
    alignas(cmsghdr) std::array<std::uint8_t, 256> control;
    std::uint8_t octet = 0;
    iovec piece{&octet, 1};
    msghdr message{};
    message.msg_name = &destination;
    message.msg_namelen = sizeof destination;
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (raw::recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    NetworkReport report = report_in(message);
    if (report.kind == Kind::kNone) continue;
    report.destination = gid_at(&destination);
    report.seen = now;
    keep(report);
  }
}

void NetworkReports::keep(const NetworkReport& report) {
  const auto same = std::find_if(kept_.begin(), kept_.end(), [&report](const NetworkReport& other) {
    return other.kind != Kind::kNone && other.destination == report.destination;
  });
  if (same != kept_.end()) {
    *same = report;
    return;
  }
  kept_[next_] = report;
  next_ = (next_ + 1) % kKept;
}

std::optional<NetworkReport> NetworkReports::about(const wire::Gid& destination, Instant now) const {
  for (const NetworkReport& report : kept_) {
    if (report.kind != Kind::kNone && report.destination == destination && now - report.seen <= kValid)
      return report;
  }
  return std::nullopt;
}

}  // namespace rrdma::link
