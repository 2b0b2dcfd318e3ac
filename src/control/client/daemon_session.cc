#include "control/client/daemon_session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/close_elsewhere.h"
#include "base/entropy.h"
#include "control/client/daemon_launch.h"
#include "control/identity.h"
#include "control/names.h"
#include "control/passed_descriptors.h"
#include "host/own_executable.h"

#ifndef RRDMA_VERSION
#define RRDMA_VERSION "unknown"
#endif

namespace rrdma::control {
namespace {

constexpr std::uint32_t kHelloSerial = 1;
// A daemon that was started answers within milliseconds; one that never starts costs four connects a second.
constexpr Duration kPauseMin = milliseconds(2);
constexpr Duration kPauseMax = milliseconds(250);
constexpr unsigned kPausesOfADoubling = 3;
constexpr Duration kStartPauseMin = milliseconds(200);
constexpr Duration kStartPauseMax = seconds(8);
// The process that holds the start lock may be stopped; do not wait forever. Without a directory it may be a
// stranger.
constexpr Duration kStarterPatience = seconds(12);
constexpr Duration kStrangerPatience = seconds(2);
constexpr Duration kRefusalPause = seconds(1);

Duration doubled(Duration first, unsigned times, Duration most) {
  while (times-- > 0 && first < most) first = first * 2;
  return std::min(first, most);
}

std::string executable_name() {
  const std::string path = host::own_executable();
  return path.empty() ? "unknown" : path.substr(path.rfind('/') + 1);
}

}  // namespace

DaemonSession::DaemonSession(const DaemonSettings& settings, control::ProcessPage* page, std::uint64_t token)
    : settings_(settings), page_(page), token_(token), chance_(system_keys()) {
  if (settings_.program.empty()) settings_.program = executable_name();
}

DaemonSession::State DaemonSession::advance(Instant now) {
  if (state_ == State::kDown && now >= next_attempt_) attempt(now);
  if (state_ == State::kGreeting) receive_greeting(now);
  return state_;
}

// Programs that lost their daemon at the same moment must not come back at the same moment.
Duration DaemonSession::varied(Duration pause) {
  const auto half = static_cast<std::uint64_t>(pause.ns / 2);
  return pause + nanoseconds(static_cast<std::int64_t>(chance_.below(half)));
}

Duration DaemonSession::pause() {
  return varied(doubled(kPauseMin, failures_++ / kPausesOfADoubling, kPauseMax));
}

void DaemonSession::go_down(Instant next_attempt) {
  socket_.reset();
  state_ = State::kDown;
  next_attempt_ = next_attempt;
}

void DaemonSession::attempt(Instant now) {
  obstacle_.reset();
  is_busy_ = false;
  if (connect_to_own() || connect_to_network(now)) return greet(now);
  if (!obstacle_ && !is_running()) start_one(now);
  next_attempt_ = now + pause();
}

bool DaemonSession::connect_to_own() {
  const std::vector<std::string> paths = control::user_paths(::geteuid());
  const std::string name = control::user_name(::geteuid());
  for (const std::string& path : paths) {
    if (connect_if(path, control::is_own_user)) return true;
  }
  if (connect_if(name, control::is_own_user)) return true;
  // A stranger with that name does not matter if the daemon has a directory to listen in.
  if (stranger_ && paths.empty()) {
    obstacle_ =
        Problem{EACCES, "the name of this user's RRDMA daemon (@" + name + ") is held by a process of uid " +
                            std::to_string(stranger_->uid) + ", pid " + std::to_string(stranger_->pid) +
                            ", which is not trusted: end it, or make /tmp writable."};
  }
  return false;
}

// The daemon gets descriptors of our memory, so it must belong to our own user or to root.
bool DaemonSession::connect_to_network(Instant now) {
  if (now < network_refused_until_) return false;
  const auto is_trusted = [](const PeerIdentity& peer) {
    return control::is_own_user(peer) || peer.uid == 0;
  };
  is_network_daemon_ = connect_if(control::system_path(), is_trusted) ||
                       connect_if(std::string(control::kNetworkName), is_trusted);
  return is_network_daemon_;
}

// Connects, and keeps the connection if `is_trusted` accepts the peer.
bool DaemonSession::connect_if(const std::string& name, bool (*is_trusted)(const PeerIdentity& peer)) {
  stranger_.reset();
  errno = 0;
  socket_ = control::connect_to(name);
  is_network_daemon_ = false;
  if (!socket_) {
    // A path is in a folder that nobody else can write to; an abstract name may be anybody's.
    is_busy_ = is_busy_ || (errno == EAGAIN && name.starts_with('/'));
    return false;
  }
  const auto peer = control::peer_identity(socket_.get());
  daemon_ = peer.pid;
  socket_.close_at_fork();  // its end tells the daemon that this process is gone
  // A daemon in unknown namespaces may be another container's. It may see packets, as any root of this
  // network can, but none of our memory.
  is_placed_ =
      peer.namespaces.known() && (!control::trusts_pod() || peer.namespaces == control::own_namespaces());
  if (is_trusted(peer)) return true;
  socket_.reset();
  stranger_ = peer;
  return false;
}

// Whether a daemon holds its lock, or listens, although it takes no connection now. Beside a daemon of the
// network, one of our own would have no network.
bool DaemonSession::is_running() {
  lock_ = control::lock_of_user_daemon();
  return is_busy_ || !lock_.empty();
}

void DaemonSession::start_one(Instant now) {
  if (!settings_.may_start || (generation_ > 0 && welcome_.is_system)) {
    if (generation_ == 0) {
      obstacle_ = Problem{ECONNREFUSED,
                          "no RRDMA daemon is running for this user in this network namespace: no "
                          "program uses RRDMA here now."};
    }
    return;
  }
  if (now < next_start_) return;
  OwnedFd lock = control::start_lock();
  if (!lock && waits_for_starter(now)) return;
  if (lock) {
    lock.close_at_fork();
    waits_for_starter_since_ = kNever;
  }
  // A daemon that was being started may have taken its own lock a moment ago.
  if (is_running()) return;
  next_start_ = now + varied(doubled(kStartPauseMin, starts_++, kStartPauseMax));
  const auto executable = control::find_daemon();
  if (!executable) {
    obstacle_ = executable.error();
    return;
  }
  if (const auto launched = control::launch_daemon(*executable, lock.get()); !launched)
    obstacle_ = launched.error();
}

// REQUIRES: errno is of start_lock().
bool DaemonSession::waits_for_starter(Instant now) {
  const bool is_ours = errno == EAGAIN;
  if (waits_for_starter_since_ == kNever) {
    waits_for_starter_since_ = now;
    patience_with_starter_ = varied(is_ours ? kStarterPatience : kStrangerPatience);
  }
  return now - waits_for_starter_since_ < patience_with_starter_;
}

Failure<Problem> DaemonSession::awaited() const {
  const auto slow = [](const std::string& what) {
    return problem(ETIMEDOUT, what +
                                  "the machine is too busy, or the daemon is stopped; `kill -CONT` it, or "
                                  "kill it and a new one will start.");
  };
  const auto silent = [](const std::string& what) {
    return problem(ETIMEDOUT, what + "set RRDMA_DAEMON_LOG to a file to see what it says.");
  };
  if (state_ == State::kGreeting)
    return slow("the RRDMA daemon (pid " + std::to_string(daemon_) +
                ") took the connection, but did not answer: ");
  if (is_busy_) return slow("the RRDMA daemon runs, but takes no connections: ");
  if (!lock_.empty())
    return slow("the RRDMA daemon runs (it holds " + lock_ + "), but takes no connections: ");
  if (waits_for_starter_since_ != kNever)
    return slow("another program started the RRDMA daemon, which does not answer: ");
  if (starts_ == 0) return silent("no RRDMA daemon answers; ");
  return silent("rrdmad was started, but did not answer (starts: " + std::to_string(starts_) + "); ");
}

control::Hello DaemonSession::hello() const {
  control::Hello hello;
  hello.role = settings_.role;
  hello.links = is_placed_ ? settings_.links : settings_.links & control::kLinkUdp;
  hello.program = settings_.program;
  hello.devices = settings_.devices;
  hello.library_version = RRDMA_VERSION;
  hello.token = token_;
  hello.has_page = page_ != nullptr;
  hello.offers_parking = parking_.valid();
  for (const HeldSlot& held : slots_) {
    const std::uint32_t next =
        page_ != nullptr ? page_->next_index(held.slot).load(std::memory_order_relaxed) : 0;
    hello.claims.push_back(
        {.slot = held.slot, .next_index = static_cast<std::uint16_t>(next), .families = held.families});
  }
  return hello;
}

// If the kernel passes no descriptors (this user has more in flight than the program may open), the program
// registers without them. Its counters are then invisible, and it offers no memory to share.
control::SendOutcome DaemonSession::send_hello() {
  control::Hello greeting = hello();
  std::vector<int> fds;
  if (greeting.has_page) fds.push_back(page_->fd());
  if (greeting.offers_parking) fds.push_back(parking_.get());
  const auto outcome = control::send_greeting(socket_.get(), control::encode(greeting, kHelloSerial), fds);
  if (outcome != control::SendOutcome::kRefused || errno != ETOOMANYREFS) return outcome;
  greeting.has_page = greeting.offers_parking = false;
  return control::send_datagram(socket_.get(), control::encode(greeting, kHelloSerial), {});
}

void DaemonSession::greet(Instant now) {
  switch (send_hello()) {
    case control::SendOutcome::kSent:
      state_ = State::kGreeting;
      next_attempt_ = kNever;
      return;
    case control::SendOutcome::kGone:
      // It may have refused us at once; its sentence is still to be read.
      state_ = State::kGreeting;
      next_attempt_ = kNever;
      return receive_greeting(now);
    case control::SendOutcome::kRefused:
      obstacle_ = Problem{errno, std::string("descriptors cannot be passed to the RRDMA daemon: ") +
                                     std::strerror(errno) + "."};
      [[fallthrough]];
    default: go_down(now + pause());
  }
}

namespace {

// The daemon passes on descriptors of other programs of this user.
control::ReceiveOutcome receive_safely(int socket, control::Received& message) {
  const auto outcome = control::receive_message(socket, message);
  for (OwnedFd& fd : message.fds)
    if (fd && !closes_at_once(fd.get())) close_elsewhere(std::move(fd));
  return outcome;
}

}  // namespace

void DaemonSession::receive_greeting(Instant now) {
  control::Received message;
  switch (receive_safely(socket_.get(), message)) {
    case control::ReceiveOutcome::kNothing: return;
    case control::ReceiveOutcome::kGone: return go_down(now + pause());
    case control::ReceiveOutcome::kMalformed:
      obstacle_ = Problem{EPROTO, "what holds the name of the RRDMA daemon does not speak its protocol."};
      return go_down(now + kRefusalPause);
    case control::ReceiveOutcome::kMessage: break;
  }
  // Refused is the same in every version.
  if (message.type() == control::MessageType::kRefused) {
    const auto refusal = control::decode<control::Refused>(message.body);
    return handle_refusal(refusal.value_or(control::Refused{"the RRDMA daemon refused this program."}), now);
  }
  const auto welcome = message.as<control::Welcome>();
  if (!welcome || message.fds.size() != (welcome->has_parking ? 1u : 0u)) {
    obstacle_ =
        Problem{EPROTO,
                "the RRDMA daemon answered in a protocol that this library does not know: they are of "
                "different releases."};
    return go_down(now + kRefusalPause);
  }
  welcome_ = *welcome;
  // The refusal of the network daemon is more useful than what our own daemon could find out.
  if (welcome_.network.families == 0 && !network_refusal_.empty()) welcome_.network.reason = network_refusal_;
  if (welcome->has_parking) parking_ = std::move(message.fds[0]);
  for (const Slot lost : welcome->lost_slots) remove_slot(lost);
  state_ = State::kReady;
  ++generation_;
  failures_ = starts_ = 0;
  next_start_ = {};
  waits_for_starter_since_ = kNever;
}

void DaemonSession::handle_refusal(const control::Refused& refusal, Instant now) {
  if (is_network_daemon_) {
    // Not available to us; this user's own daemon can still serve this host.
    network_refusal_ = refusal.sentence;
    network_refused_until_ = now + kRefusalPause;
    if (!settings_.may_start) obstacle_ = Problem{EPROTO, refusal.sentence};
    return go_down(settings_.may_start ? now : now + kRefusalPause);
  }
  obstacle_ = Problem{EPROTO, refusal.sentence};
  go_down(now + kRefusalPause);
}

control::SendOutcome DaemonSession::send(Octets datagram, std::span<const int> fds) {
  const auto outcome = control::send_datagram(socket_.get(), datagram, fds);
  if (outcome == control::SendOutcome::kGone) go_down(Instant{});
  return outcome;
}

control::ReceiveOutcome DaemonSession::receive(control::Received& message) {
  const auto outcome = receive_safely(socket_.get(), message);
  const bool ends =
      outcome == control::ReceiveOutcome::kGone || outcome == control::ReceiveOutcome::kMalformed;
  if (ends) go_down(Instant{});
  return ends ? control::ReceiveOutcome::kGone : outcome;
}

void DaemonSession::add_slot(Slot slot, std::uint8_t families) {
  remove_slot(slot);
  slots_.push_back({slot, families});
}

void DaemonSession::remove_slot(Slot slot) {
  slots_.erase(
      std::remove_if(slots_.begin(), slots_.end(), [&](const HeldSlot& held) { return held.slot == slot; }),
      slots_.end());
}

bool DaemonSession::holds(Slot slot) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const HeldSlot& held) { return held.slot == slot; });
}

void DaemonSession::describe(std::uint32_t links, std::string devices) {
  settings_.links = links;
  settings_.devices = std::move(devices);
}

void DaemonSession::take_network(const control::NetworkState& network, OwnedFd parking) {
  welcome_.network = network;
  if (parking) parking_ = std::move(parking);
}

}  // namespace rrdma::control
