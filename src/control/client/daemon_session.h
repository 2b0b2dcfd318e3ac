// DaemonSession: the connection of this process to its daemon, as a state machine that never blocks:
// find the daemon, start it where there is none, greet it, notice its end, and do it all again, with the
// slots that the process holds and the parking that keeps the sockets alive. The data path needs none of
// this: a process without a daemon goes on sending and receiving.
//
//   down ──connect──► greeting ──Welcome──► ready ──hang-up──► down
//     └─ nobody there: start one (one process starts, the others wait), try again
//
// Which daemon: this user's own before the system daemon, which must be root's (names.h). Threads: one at a time; DaemonClient holds the lock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/instant.h"
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
  std::string devices;    // for people: "rrdma0 on eth0"
  bool may_start = true;  // a daemon, where there is none
  // For a connection, and for each reply. A busy machine may leave a daemon without a processor for seconds.
  Duration patience = seconds(20);
};

class DaemonSession {
 public:
  enum class State : std::uint8_t { kDown, kGreeting, kReady };

  // `page` may be null (tools); it outlives this.
  DaemonSession(const DaemonSettings& settings, control::ProcessPage* page, std::uint64_t token);

  // Takes whatever step is due. Returns the state.
  State advance(Instant now);
  [[nodiscard]] State state() const { return state_; }
  // When advance() has something to do although nothing arrived; kNever while ready.
  [[nodiscard]] Instant next_attempt() const { return state_ == State::kReady ? kNever : next_attempt_; }
  // The connection; -1 while down. Readable: advance() while greeting, receive() while ready.
  [[nodiscard]] int socket() const { return socket_.get(); }
  // Why there is no connection, when trying again will not help by itself.
  [[nodiscard]] const std::optional<Problem>& obstacle() const { return obstacle_; }

  // REQUIRES: ready. The end of the daemon takes the session down (kGone).
  [[nodiscard]] control::SendOutcome send(Octets datagram, std::span<const int> fds);
  [[nodiscard]] control::ReceiveOutcome receive(control::Received& message);

  // Slots that are claimed from the next daemon.
  void add_slot(Slot slot, std::uint8_t families);
  void remove_slot(Slot slot);
  [[nodiscard]] bool holds(Slot slot) const;
  void describe(std::uint32_t links, std::string devices);
  // NetworkUp came.
  void take_network(const control::NetworkState& network, OwnedFd parking);

  // Of the last daemon that answered.
  [[nodiscard]] const control::Welcome& welcome() const { return welcome_; }
  // Counts daemons: it grows with every Welcome.
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
  void start_one(Instant now);
  [[nodiscard]] control::Hello hello() const;
  [[nodiscard]] control::SendOutcome send_hello();
  void greet(Instant now);
  void receive_greeting(Instant now);
  void handle_refusal(const control::Refused& refusal, Instant now);
  void go_down(Instant next_attempt);
  [[nodiscard]] Duration pause();

  DaemonSettings settings_;
  control::ProcessPage* const page_;
  const std::uint64_t token_;
  State state_ = State::kDown;
  OwnedFd socket_;
  bool is_network_daemon_ = false;        // the one that has the network, not our own user's
  bool is_placed_ = true;                 // we know in which namespaces it lives
  std::optional<PeerIdentity> stranger_;  // who was found at the last name, if that is nobody to trust
  OwnedFd parking_;
  OwnedFd start_lock_;
  std::vector<HeldSlot> slots_;
  control::Welcome welcome_;
  std::uint64_t generation_ = 0;
  std::optional<Problem> obstacle_;
  std::string network_refusal_;
  Instant network_refused_until_{};
  Instant next_attempt_{};
  Instant next_start_{};
  Instant waits_for_starter_since_ = kNever;
  unsigned failures_ = 0;
};

}  // namespace rrdma::control
