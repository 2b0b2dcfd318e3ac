// DaemonSession: the connection of this process to its daemon, as a state machine that never blocks. It finds
// or starts the daemon, greets it, notices its end, and starts over. It keeps the process's slots, and the
// parking that keeps the sockets alive. The data path does not need it: a process without a daemon continues
// to send and receive.
//
//   down ──connect──► greeting ──Welcome──► ready ──hang-up──► down
//     └─ no daemon: start one (one process starts it, the others wait), try again
//
// On a busy machine each needless start delays the daemon that would answer. So no process starts one while a
// daemon is seen to run or to be started (locks, names.h), and the pauses between tries and between starts
// grow.
//
// This user's own daemon takes precedence over the system daemon, which must be root's (names.h). Threads:
// one at a time; DaemonClient holds the lock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/instant.h"
#include "base/keys/key_source.h"
#include "base/owned_fd.h"
#include "base/problem.h"
#include "control/identity.h"
#include "control/message_socket.h"
#include "control/messages.h"
#include "control/process_page.h"

namespace rrdma::control {

struct DaemonSettings {
  control::Role role = control::Role::kProgram;
  std::uint32_t links = control::kLinkUdp | control::kLinkShm | control::kLinkDirect;
  std::string program;    // empty: the name of the executable
  std::string devices;    // a description: "rrdma0 on eth0"
  bool may_start = true;  // whether to start a daemon if there is none
  // For a connection, and for each reply. On a busy machine a daemon may get no CPU time for seconds.
  Duration patience = seconds(30);
};

class DaemonSession {
 public:
  enum class State : std::uint8_t { kDown, kGreeting, kReady };

  // `page` may be null (tools); it outlives this object.
  DaemonSession(const DaemonSettings& settings, control::ProcessPage* page, std::uint64_t token);

  // Takes the step that is due, if any. Returns the state.
  State advance(Instant now);
  [[nodiscard]] State state() const { return state_; }
  // When to call advance() even if nothing arrived; kNever while ready.
  [[nodiscard]] Instant next_attempt() const { return state_ == State::kReady ? kNever : next_attempt_; }
  // The connection; -1 while down. If readable, call advance() while greeting, receive() while ready.
  [[nodiscard]] int socket() const { return socket_.get(); }
  // Why there is no connection, if retrying alone will not help.
  [[nodiscard]] const std::optional<Problem>& obstacle() const { return obstacle_; }
  // For a caller whose patience has ended: what the session waits for. REQUIRES: not ready.
  [[nodiscard]] Failure<Problem> awaited() const;

  // REQUIRES: ready. If the daemon is gone (kGone), the session goes down.
  [[nodiscard]] control::SendOutcome send(Octets datagram, std::span<const int> fds);
  [[nodiscard]] control::ReceiveOutcome receive(control::Received& message);

  // Slots to claim from the next daemon.
  void add_slot(Slot slot, std::uint8_t families);
  void remove_slot(Slot slot);
  [[nodiscard]] bool holds(Slot slot) const;
  void describe(std::uint32_t links, std::string devices);
  // Handles NetworkUp.
  void take_network(const control::NetworkState& network, OwnedFd parking);

  // From the last daemon that answered.
  [[nodiscard]] const control::Welcome& welcome() const { return welcome_; }
  // Incremented by every Welcome.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

 private:
  struct HeldSlot {
    Slot slot;
    std::uint8_t families;
  };

  void attempt(Instant now);
  [[nodiscard]] bool connect_to_own();
  [[nodiscard]] bool connect_if(const std::string& name, bool (*is_trusted)(const PeerIdentity& peer));
  [[nodiscard]] bool connect_to_network(Instant now);
  [[nodiscard]] bool is_running();
  void start_one(Instant now);
  [[nodiscard]] bool waits_for_starter(Instant now);
  [[nodiscard]] control::Hello hello() const;
  [[nodiscard]] control::SendOutcome send_hello();
  void greet(Instant now);
  void receive_greeting(Instant now);
  void handle_refusal(const control::Refused& refusal, Instant now);
  void go_down(Instant next_attempt);
  [[nodiscard]] Duration pause();
  [[nodiscard]] Duration varied(Duration pause);

  DaemonSettings settings_;
  control::ProcessPage* const page_;
  const std::uint64_t token_;
  State state_ = State::kDown;
  OwnedFd socket_;
  bool is_network_daemon_ = false;        // the daemon with the network, not our own user's
  bool is_placed_ = true;                 // its namespaces are known
  bool is_busy_ = false;                  // a daemon listens, and its queue of callers is full
  pid_t daemon_ = 0;                      // at the other end of the last connection
  std::string lock_;                      // the one that a daemon holds without listening; empty: none
  std::optional<PeerIdentity> stranger_;  // the untrusted process at the last name, if any
  OwnedFd parking_;
  std::vector<HeldSlot> slots_;
  control::Welcome welcome_;
  std::uint64_t generation_ = 0;
  std::optional<Problem> obstacle_;
  std::string network_refusal_;
  Instant network_refused_until_{};
  Instant next_attempt_{};
  Instant next_start_{};
  Instant waits_for_starter_since_ = kNever;
  Duration patience_with_starter_{};
  unsigned failures_ = 0;  // since the last Welcome
  unsigned starts_ = 0;    // likewise
  KeySource chance_;       // for pauses
};

}  // namespace rrdma::control
