#include "daemon/qp1/cm_mads.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "daemon/log.h"
#include "wire/icrc.h"
#include "wire/source_port.h"
#include "wire/transport_packet.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

namespace rrdma::daemon {
namespace {

constexpr wire::QKey kGeneralServicesQKey{0x80010000};
constexpr wire::Opcode kDatagramSend{wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly};
constexpr Duration kAddressesGoodFor = seconds(1);
constexpr Duration kAddressesAskedAgain = milliseconds(20);
constexpr std::size_t kInterfacesMax = 4096;
constexpr std::size_t kFrameOctets = wire::kBthOctets + 8 + wire::kMadOctets + wire::kIcrcOctets;

wire::IcrcSeed seed_of(const wire::Gid& source, const wire::Gid& destination, std::uint16_t source_port) {
  if (source.is_ipv4()) {
    return wire::IcrcSeed::ipv4({source.ipv4()}, {destination.ipv4()}, source_port);
  }
  return wire::IcrcSeed::ipv6({source.octets}, {destination.octets}, source_port);
}

OwnedFd open_sender(bool ipv4, std::uint16_t& port) {
  const int family = ipv4 ? AF_INET : AF_INET6;
  OwnedFd socket = lifted(raw::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!socket) return socket;
  // DF is inside the ICRC. Nobody answers to the source port: what comes is not read.
  if (ipv4) {
    (void)raw::setsockopt(socket.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    (void)raw::setsockopt(socket.get(), SOL_SOCKET, SO_NO_CHECK, 1);
  } else {
    (void)raw::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    (void)raw::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    (void)raw::setsockopt(socket.get(), IPPROTO_UDP, UDP_NO_CHECK6_TX, 1);
  }
  (void)raw::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, 1);
  const std::uint16_t wanted = wire::source_port_of_datagrams(wire::kGeneralServicesQpn);
  for (std::uint32_t i = 0; i < 64; ++i) {
    port =
        static_cast<std::uint16_t>(wire::kSourcePortMin + (wanted - wire::kSourcePortMin + i * 131) % 0x4000);
    int bound = -1;
    if (ipv4) {
      sockaddr_in any{};
      any.sin_family = AF_INET;
      any.sin_port = htons(port);
      bound = raw::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    } else {
      sockaddr_in6 any{};
      any.sin6_family = AF_INET6;
      any.sin6_port = htons(port);
      bound = raw::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    }
    if (bound == 0) return socket;
  }
  return OwnedFd();
}

// Sends with the source address of the GID. 0 or an errno.
int send_datagram_v4(int socket, const cm::Route& route, Octets frame) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(wire::kRoceUdpPort);
  std::memcpy(&to.sin_addr, route.remote.ipv4().data(), 4);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in_pktinfo)) + CMSG_SPACE(sizeof(int))] = {};
  iovec content{const_cast<std::uint8_t*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = IPPROTO_IP;
  header->cmsg_type = IP_PKTINFO;
  header->cmsg_len = CMSG_LEN(sizeof(in_pktinfo));
  in_pktinfo info{};
  std::memcpy(&info.ipi_spec_dst, route.local.ipv4().data(), 4);
  std::memcpy(CMSG_DATA(header), &info, sizeof info);
  header = CMSG_NXTHDR(&message, header);
  header->cmsg_level = IPPROTO_IP;
  header->cmsg_type = IP_TOS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int tos = route.traffic_class;
  std::memcpy(CMSG_DATA(header), &tos, sizeof tos);
  return raw::sendmsg(socket, &message, MSG_DONTWAIT) < 0 ? errno : 0;
}

int send_datagram_v6(int socket, const cm::Route& route, std::uint32_t interface_index, Octets frame) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(wire::kRoceUdpPort);
  to.sin6_scope_id = interface_index;
  std::memcpy(&to.sin6_addr, route.remote.octets.data(), 16);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(int))] = {};
  iovec content{const_cast<std::uint8_t*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = IPPROTO_IPV6;
  header->cmsg_type = IPV6_PKTINFO;
  header->cmsg_len = CMSG_LEN(sizeof(in6_pktinfo));
  in6_pktinfo info{};
  std::memcpy(&info.ipi6_addr, route.local.octets.data(), 16);
  info.ipi6_ifindex = interface_index;
  std::memcpy(CMSG_DATA(header), &info, sizeof info);
  header = CMSG_NXTHDR(&message, header);
  header->cmsg_level = IPPROTO_IPV6;
  header->cmsg_type = IPV6_TCLASS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int traffic_class = route.traffic_class;
  std::memcpy(CMSG_DATA(header), &traffic_class, sizeof traffic_class);
  return raw::sendmsg(socket, &message, MSG_DONTWAIT) < 0 ? errno : 0;
}

link::FaultSpec fault_from_environment() {
  const char* text = std::getenv("RRDMA_MAD_FAULT");
  if (text == nullptr) return {};
  auto spec = link::parse_fault_spec(text);
  if (spec.ok()) return *spec;
  log_line("RRDMA_MAD_FAULT is ignored: " + spec.error());
  return {};
}

}  // namespace

bool OwnAddresses::contains(const wire::Gid& gid, Instant now) {
  if (gid.is_ipv4() && gid.octets[12] == 127) return true;
  if (!read_once_ || now - read_at_ > kAddressesGoodFor) {
    read();
    read_at_ = now;
  }
  if (known_.contains(gid)) return true;
  if (now - read_at_ < kAddressesAskedAgain) return false;
  read();
  read_at_ = now;
  return known_.contains(gid);
}

void OwnAddresses::read() {
  read_once_ = true;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return;
  known_.clear();
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    wire::Gid gid;
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4;
      std::memcpy(&v4, one->ifa_addr, sizeof v4);
      std::array<std::uint8_t, 4> octets;
      std::memcpy(octets.data(), &v4.sin_addr, 4);
      gid = wire::gid_of_ipv4(octets);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6;
      std::memcpy(&v6, one->ifa_addr, sizeof v6);
      std::memcpy(gid.octets.data(), &v6.sin6_addr, 16);
    } else {
      continue;
    }
    known_.insert(gid);
  }
  ::freeifaddrs(all);
}

MadPort::MadPort(Counters& counters, std::uint64_t seed)
    : counters_(counters), prng_(seed), fault_(fault_from_environment()) {
  if (fault_.any()) prng_ = Prng(fault_.seed);
}

void MadPort::learn_interface(const wire::Gid& remote, std::uint32_t interface_index) {
  if (!remote.is_link_local() || interface_index == 0) return;
  if (interfaces_.size() >= kInterfacesMax) interfaces_.clear();
  interfaces_[remote] = interface_index;
}

unsigned MadPort::copies() {
  if (!fault_.any()) return 1;
  if (prng_.chance_ppm(fault_.drop_ppm)) {
    counters_.add("cm.mads_dropped_on_purpose");
    return 0;
  }
  return prng_.chance_ppm(fault_.duplicate_ppm) ? 2 : 1;
}

void MadPort::send(const cm::OutgoingMad& mad, Instant now) {
  if (mad.route.local == mad.route.remote || own_.contains(mad.route.remote, now)) {
    counters_.add("cm.mads_within_host");
    local_.push_back({.addresses = {.local = mad.route.remote, .remote = mad.route.local},
                      .octets = {mad.octets.begin(), mad.octets.end()}});
    return;
  }
  transmit(mad);
}

std::optional<ReceivedMad> MadPort::next_local() {
  if (local_.empty()) return std::nullopt;
  ReceivedMad mad = std::move(local_.front());
  local_.pop_front();
  return mad;
}

MadPort::Sender& MadPort::sender_for(bool ipv4) {
  Sender& sender = ipv4 ? v4_ : v6_;
  if (!sender.tried) {
    sender.tried = true;
    sender.socket = open_sender(ipv4, sender.port);
    if (!sender.socket) log_line("no socket to send MADs from.");
  }
  return sender;
}

void MadPort::transmit(const cm::OutgoingMad& mad) {
  Sender& sender = sender_for(mad.route.remote.is_ipv4());
  if (!sender.socket || mad.route.local.is_ipv4() != mad.route.remote.is_ipv4()) {
    return counters_.add("cm.mads_unsendable");
  }
  wire::TransportHeaders headers{};
  headers.bth.opcode = kDatagramSend;
  headers.bth.pkey = wire::kDefaultPKey;
  headers.bth.destination = wire::kGeneralServicesQpn;
  headers.bth.psn = wire::Psn(next_psn_++);
  headers.deth.qkey = kGeneralServicesQKey;
  headers.deth.source = wire::kGeneralServicesQpn;
  std::array<std::uint8_t, wire::kHeaderOctetsMax + wire::kMadOctets + wire::kIcrcOctets> frame{};
  const std::size_t before = wire::emit_transport_headers(headers, frame.data());
  std::copy(mad.octets.begin(), mad.octets.end(), frame.begin() + static_cast<std::ptrdiff_t>(before));
  const std::size_t covered = before + wire::kMadOctets;
  const auto seed = seed_of(mad.route.local, mad.route.remote, sender.port);
  wire::store_icrc(frame.data() + covered, seed.icrc(Octets(frame).first(covered)));
  const Octets whole = Octets(frame).first(covered + wire::kIcrcOctets);
  std::uint32_t interface_index = 0;
  if (const auto known = interfaces_.find(mad.route.remote); known != interfaces_.end())
    interface_index = known->second;
  const int error = mad.route.remote.is_ipv4()
                        ? send_datagram_v4(sender.socket.get(), mad.route, whole)
                        : send_datagram_v6(sender.socket.get(), mad.route, interface_index, whole);
  // What could not be sent is lost as on any network; a timer repeats it.
  counters_.add(error == 0 ? "cm.mads_sent" : "cm.mads_unsendable");
}

std::optional<ReceivedMad> MadPort::parse(const control::FrameFields& frame) {
  if (frame.frame.size() != kFrameOctets) return std::nullopt;
  const Octets octets(frame.frame);
  wire::TransportPacket packet;
  if (wire::parse_transport(octets.first(octets.size() - wire::kIcrcOctets), packet) !=
      wire::TransportError::kNone)
    return std::nullopt;
  if (packet.headers.bth.opcode != kDatagramSend ||
      packet.headers.bth.destination != wire::kGeneralServicesQpn)
    return std::nullopt;
  if (packet.headers.deth.qkey != kGeneralServicesQKey || packet.payload.size() != wire::kMadOctets)
    return std::nullopt;
  // Who passed a frame on has checked its ICRC; the port is only known to who received it.
  if (frame.source_port != 0) {
    const auto seed = seed_of(frame.source, frame.destination, frame.source_port);
    const bool right = frame.source.is_ipv4()
                           ? solver_.check(seed, octets).verdict != wire::IcrcVerdict::kWrong
                           : wire::icrc_matches(seed, octets);
    if (!right) {
      counters_.add("cm.mads_corrupt");
      return std::nullopt;
    }
  }
  counters_.add("cm.mads_received");
  learn_interface(frame.source, frame.interface_index);
  return ReceivedMad{.addresses = {.local = frame.destination, .remote = frame.source},
                     .octets = {packet.payload.begin(), packet.payload.end()}};
}

}  // namespace rrdma::daemon
