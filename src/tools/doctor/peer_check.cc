// Checks whether a peer's host answers on UDP port 4791. It sends a request that RRDMA, rxe and hardware all
// answer: a lookup (SIDR) of a service that cannot exist. The daemon sends it, because it holds QP1. A plain
// datagram in addition distinguishes a closed port from silence.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/format.h"
#include "base/owned_fd.h"
#include "control/client/daemon_client.h"
#include "control/cm_messages.h"
#include "daemon/slots/slot_socket.h"
#include "tools/doctor/finding.h"
#include "wire/address_text.h"
#include "wire/cm_ip_header.h"
#include "wire/udp.h"

namespace rrdma::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRequestTimeout = std::chrono::milliseconds(1500);  // for each request
constexpr int kQuestions = 3;                                      // one may be lost
constexpr int kRefusalPatienceMs = 300;

struct Target {
  sockaddr_storage address{};
  socklen_t size = 0;
  wire::Gid remote;
  wire::Gid local;  // the source address that the kernel selects
  std::uint32_t interface_index = 0;
};

wire::Gid gid_of(const sockaddr_storage& address) {
  wire::Gid gid;
  if (address.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    std::array<std::uint8_t, 4> octets{};
    std::memcpy(octets.data(), &v4.sin_addr, octets.size());
    return wire::gid_of_ipv4(octets);
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  std::memcpy(gid.octets.data(), &v6.sin6_addr, gid.octets.size());
  return gid;
}

Result<Target, std::string> resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(wire::kRoceUdpPort);
  if (const int error = ::getaddrinfo(name.c_str(), port.c_str(), &hints, &list); error != 0) {
    return Failure{std::string(::gai_strerror(error))};
  }
  Target target;
  std::memcpy(&target.address, list->ai_addr, list->ai_addrlen);
  target.size = list->ai_addrlen;
  ::freeaddrinfo(list);
  target.remote = gid_of(target.address);
  if (target.address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &target.address, sizeof v6);
    target.interface_index = v6.sin6_scope_id;
  }
  return target;
}

// A socket connected to the peer's port. It reports a closed port, and a missing host after some seconds,
// when address resolution has failed.
class Knock {
 public:
  // Sets the local address of the target and sends an empty datagram.
  explicit Knock(Target& target) : socket_(::socket(target.address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    // Without this option, a socket reports only closed ports.
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_IP, IP_RECVERR, &on, sizeof on);
    if (target.address.ss_family == AF_INET6)
      ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&target.address), target.size) != 0)
      error_ = errno;
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&local), &size) == 0)
      target.local = gid_of(local);
    if (error_ == 0 && ::send(socket_.get(), "", 0, 0) < 0) error_ = errno;
  }

  // The errno reported within this many milliseconds, or 0.
  [[nodiscard]] int heard(int patience_ms) const {
    if (error_ != 0) return error_;
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, patience_ms) <= 0) return 0;
    char octet;
    return ::recv(socket_.get(), &octet, 1, MSG_DONTWAIT) < 0 ? errno : 0;
  }

 private:
  OwnedFd socket_;
  int error_ = 0;
};

class AnswerWaiter final : public control::DaemonEvents {
 public:
  void handle_channel_offered(const control::ChannelOffered&, std::vector<OwnedFd>) override {}
  void handle_peer_gone(const control::PeerGone&) override {}
  void handle_frame_forwarded(const control::FrameFields&) override {}
  void handle_other(control::Received& message) override {
    const auto event = message.as<control::CmEvent>();
    if (event && std::holds_alternative<cm::LookupReply>(event->event.details)) answered_ = true;
  }
  [[nodiscard]] bool answered() const { return answered_; }

 private:
  bool answered_ = false;
};

// Sends the request. Returns the time until the answer, or nothing.
std::optional<Clock::duration> ask(control::DaemonClient& daemon, const Target& target,
                                   std::uint32_t number) {
  control::CmLookUp question;
  question.number = number;
  // No program can listen on port 0. Every answer is therefore "no such service", and no program is
  // disturbed.
  question.parameters.service_id = wire::service_id_of({.port_space = wire::PortSpace::kUdp, .port = 0});
  question.parameters.route = {
      .local = target.local, .remote = target.remote, .interface_index = target.interface_index};
  if (target.local.is_ipv4() == target.remote.is_ipv4()) {
    question.parameters.ip =
        wire::IpCmHeader{.version = target.remote.is_ipv4() ? wire::IpVersion::kIpv4 : wire::IpVersion::kIpv6,
                         .source = target.local,
                         .destination = target.remote};
  }
  const auto begin = Clock::now();
  if (const auto started = daemon.request<control::CmStarted>(question); !started) return std::nullopt;
  AnswerWaiter waiter;
  while (!waiter.answered()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(begin + kRequestTimeout - Clock::now()).count();
    pollfd wait{.fd = daemon.event_fd(), .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) < 0) return std::nullopt;
    daemon.handle_events(waiter);
  }
  return Clock::now() - begin;
}

Finding unreachable(const std::string& subject, const std::string& address, int error) {
  if (error == ECONNREFUSED) {
    return {Health::kBad, subject, formatted("{} is there, but nobody serves UDP port 4791", address),
            "start a program with `rrdma run` there, or `rrdmad --stay`; with rxe: rdma link add rxe0 type "
            "rxe netdev IF"};
  }
  return {Health::kBad, subject, formatted("{} cannot be reached: {}", address, std::strerror(error)),
          "look at `ip route get " + address + "` and `ping " + address + "`"};
}

}  // namespace

Finding check_peer(const std::string& name) {
  const std::string subject = "peer " + name;
  auto target = resolve(name);
  if (!target)
    return {Health::kBad, subject, "the name cannot be resolved: " + target.error(), "give an address"};
  const std::string address = wire::to_text(target->remote);
  auto daemon = control::DaemonClient::connect_or_start({.role = control::Role::kTool});
  if (!daemon)
    return {Health::kBad, subject, "cannot be asked: " + daemon.error().sentence,
            "put this host in order first"};
  const control::NetworkState network = (*daemon)->network();
  const std::uint8_t needed = target->remote.is_ipv4() ? control::kFamilyV4 : control::kFamilyV6;
  if ((network.families & needed) == 0)
    return {Health::kBad, subject, "cannot be asked: " + network.reason, network.remedy};
  const Knock knock(*target);
  if (const int error = knock.heard(kRefusalPatienceMs); error != 0)
    return unreachable(subject, address, error);
  for (int i = 1; i <= kQuestions; ++i) {
    if (const auto time = ask(**daemon, *target, static_cast<std::uint32_t>(i))) {
      return {.subject = subject,
              .sentence = formatted("{} answers on UDP port 4791, after {:.1f} ms", address,
                                    std::chrono::duration<double, std::milli>(*time).count())};
    }
    if (const int error = knock.heard(0); error != 0) return unreachable(subject, address, error);
  }
  return {Health::kBad, subject, formatted("{} does not answer on UDP port 4791", address),
          "let UDP port 4791 through the firewalls between here and there (both ways), and see that a RoCEv2 "
          "device runs there: `rrdmad --stay`, a program, or rxe"};
}

}  // namespace rrdma::tools
