#include "daemon/last_answers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "control/identity.h"
#include "wire/headers.h"
#include "wire/source_port.h"

namespace rrdma::daemon {
namespace {

// Counted from the end of the program. A peer with RRDMA asks again within milliseconds; one with the usual
// timeout of 14 after 67 ms. At the last time most peers have given up.
constexpr std::array kTimes = {Duration{},        milliseconds(2),   milliseconds(10), milliseconds(40),
                               milliseconds(150), milliseconds(400), milliseconds(900)};
constexpr Duration kAgeMax = seconds(2);
constexpr std::size_t kAnswersOfProgramMax = 256;
constexpr std::size_t kLinksMax = 16;

constexpr std::size_t kAckOctets = wire::kBthOctets + wire::kAethOctets;
constexpr std::uint8_t kTypeRc = 2;           // ibv_qp_type
constexpr std::uint8_t kTypeXrcReceive = 10;  // the same

std::array<std::uint8_t, kAckOctets> acknowledgement(const control::QpAnswer& content) {
  const auto transport = content.fields.type == kTypeXrcReceive ? wire::Transport::kExtendedReliableConnection
                                                                : wire::Transport::kReliableConnection;
  std::array<std::uint8_t, kAckOctets> octets{};
  wire::emit_bth({.opcode = wire::Opcode(transport, wire::Step::kAcknowledge),
                  .pkey = wire::kDefaultPKey,
                  .destination = wire::Qpn(content.fields.peer_qpn & wire::kMask24),
                  .psn = content.answer.psn},
                 octets.data());
  wire::emit_aeth({.syndrome = wire::kSyndromeAckNoCredits, .msn = content.answer.msn},
                  octets.data() + wire::kBthOctets);
  return octets;
}

bool is_wanted(const control::QpFields& fields) {
  return (fields.type == kTypeRc || fields.type == kTypeXrcReceive) && fields.link == control::kLinkUdp &&
         fields.source_port >= wire::kSourcePortMin && !fields.peer_gid.is_zero() &&
         !fields.peer_gid.is_multicast();
}

}  // namespace

Instant LastAnswers::Pending::due() const { return said < kTimes.size() ? gone_at + kTimes[said] : kNever; }

void LastAnswers::handle_client_gone(Client& client) {
  if (!client.page || client.hello.role != control::Role::kProgram) return;
  const Instant now = EventLoop::now();
  for (const control::QpAnswer& content : client.page->last_answers(now, kAgeMax, kAnswersOfProgramMax)) {
    if (!is_wanted(content.fields) || !shares_.take(client.payer())) continue;
    pending_.push_back(
        {.content = content, .author = client.identity, .account = client.account, .gone_at = now});
  }
  handle_deadline(now);
}

Instant LastAnswers::next_deadline() const {
  Instant earliest = kNever;
  for (const Pending& pending : pending_) earliest = std::min(earliest, pending.due());
  return earliest;
}

void LastAnswers::handle_deadline(Instant now) {
  for (Pending& pending : pending_) {
    if (pending.due() > now) continue;
    say(pending, now);
    ++pending.said;
  }
  std::erase_if(pending_, [this](const Pending& pending) {
    const bool is_over = pending.said == kTimes.size();
    if (is_over) shares_.give_back(pending.account);
    return is_over;
  });
  std::erase_if(links_, [&](const auto& link) {
    return std::none_of(pending_.begin(), pending_.end(), [&](const Pending& pending) {
      return pending.content.fields.source_port == link.first;
    });
  });
}

void LastAnswers::say(const Pending& pending, Instant now) {
  if (say_within_host(pending)) return;
  if (network_.is_up()) say_to_network(pending.content, now);
}

// By its address, the owner of the peer's slot is a program of the same user on this host. If it is not the
// intended QP, it ignores an acknowledgement from another peer's address.
bool LastAnswers::say_within_host(const Pending& pending) {
  const control::QpFields& fields = pending.content.fields;
  if (fields.peer_gid != fields.local_gid) return false;
  Client* owner = slots_.owner_of(control::slot_of_qpn(fields.peer_qpn & wire::kMask24));
  if (owner == nullptr || owner->doomed() || !control::is_one_user(pending.author, owner->identity))
    return false;
  control::FrameForwarded forwarded;
  forwarded.content.source = fields.local_gid;
  forwarded.content.destination = fields.peer_gid;
  forwarded.content.traffic_class = fields.traffic_class;
  const auto octets = acknowledgement(pending.content);
  forwarded.content.frame.assign(octets.begin(), octets.end());
  forwarded.content.frame.resize(octets.size() + wire::kIcrcOctets);  // not checked within the host
  counters_.add(owner->notify(forwarded) ? "answers.said_within_host" : "answers.dropped");
  return true;
}

void LastAnswers::say_to_network(const control::QpAnswer& content, Instant now) {
  const control::QpFields& fields = content.fields;
  objects::Path path;
  path.local = fields.local_gid;
  path.remote = fields.peer_gid;
  path.interface_index = fields.interface_index;
  path.source_port = fields.source_port;
  path.traffic_class = fields.traffic_class;
  path.hop_limit = fields.hop_limit;
  link::UdpLink* link = link_for(path);
  objects::Frame* frame = link == nullptr ? nullptr : link->reserve(path);
  if (frame == nullptr) return counters_.add("answers.unsendable");
  const auto octets = acknowledgement(content);
  std::copy(octets.begin(), octets.end(), frame->header.begin());
  frame->header_octets = static_cast<std::uint8_t>(octets.size());
  link->commit(*frame);
  link->flush(now);
  counters_.add("answers.said");
}

// Some peers accept packets of a connection from only one source port: the program's. The program's sockets
// may close a moment after its connection to the daemon; then the next attempt is soon enough.
link::UdpLink* LastAnswers::link_for(const objects::Path& path) {
  const auto known = links_.find(path.source_port);
  if (known != links_.end()) return known->second.get();
  if (links_.size() >= kLinksMax) return nullptr;
  IpSockets slot{network_.daemon_slot().v4.duplicate(), network_.daemon_slot().v6.duplicate()};
  link::UdpConfig config;
  config.segmentation = false;
  config.send_ports = 1;
  config.port_seed =
      path.source_port;  // modulo the range of source ports, which starts at a multiple of its size
  auto opened = link::UdpLink::open({&slot, 1}, config);
  if (!opened || (*opened)->source_port(path) != path.source_port) return nullptr;
  return (links_[path.source_port] = std::move(*opened)).get();
}

}  // namespace rrdma::daemon
