// Client: one connection to the daemon and what is known about the process behind it. Messages to a
// client never block the daemon: what its socket does not take waits in an outbox with a bound, and
// nothing more is read from a client that does not read its answers.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "control/identity.h"
#include "control/message_socket.h"
#include "control/messages.h"
#include "control/process_page.h"
#include "daemon/disposal.h"
#include "daemon/shares.h"

namespace rrdma::daemon {

// Replies stop being made when a client does not read them; events stop earlier.
inline constexpr std::size_t kOutboxMax = 128;
inline constexpr std::size_t kOutboxEventsMax = 64;

class Client {
 public:
  // `waiting` counts the octets of all outboxes; `disposal` gets descriptors that were passed on. Both outlive this.
  Client(OwnedFd socket, const control::PeerIdentity& peer, Shares& waiting, Disposal& disposal, Instant now);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] const OwnedFd& socket() const { return socket_; }

  // Answers a request. False: the descriptors cannot be passed (errno says why) or the client is gone.
  template <typename Message>
  bool reply(const control::Received& request, const Message& message, std::span<const int> fds = {}) {
    return answer(request.header.serial, message, fds);
  }
  template <typename Message>
  bool answer(std::uint32_t serial, const Message& message, std::span<const int> fds = {}) {
    return send(control::encode(message, serial), fds, kOutboxMax);
  }
  void fail(const control::Received& request, int error, std::string sentence) {
    (void)reply(request, control::Failed{.error = error, .sentence = std::move(sentence)});
  }
  // False when it cannot be delivered: the client is behind or gone.
  template <typename Message>
  bool notify(const Message& message, std::span<const int> fds = {}) {
    return send(control::encode(message, 0), fds, kOutboxEventsMax);
  }
  // Sends what waits, as far as the socket takes it.
  void flush();
  [[nodiscard]] bool has_backlog() const { return !outbox_.empty(); }

  // Gives back what others count for it. Afterwards any thread may destroy it.
  void settle_accounts();

  // Ends the connection at the end of this turn of the loop, after what was sent so far.
  void doom() { doomed_ = true; }
  [[nodiscard]] bool doomed() const { return doomed_; }

 private:
  struct Outgoing {
    std::vector<std::uint8_t> datagram;
    std::vector<OwnedFd> fds;
  };
  bool send(std::vector<std::uint8_t> datagram, std::span<const int> fds, std::size_t outbox_max);

  OwnedFd socket_;
  Shares& waiting_;
  Disposal& disposal_;
  std::deque<Outgoing> outbox_;
  bool doomed_ = false;

 public:
  const control::PeerIdentity identity;  // of the process that connected, when it did
  const uid_t account;                   // who is charged for what it takes (control::account_of)
  control::PeerIdentity
      acting;  // who sent the message that is handled: the process may have become another user
  const Instant connected_at;
  OwnedFd process;  // a pidfd: a child that inherited the connection must not keep a dead program alive

  bool greeted = false;         // Welcome was sent
  bool awaits_welcome = false;  // Hello came, the network is not settled
  std::uint32_t hello_serial = 0;
  control::Hello hello;
  std::uint64_t token = 0;
  std::optional<control::ProcessPageView> page;
  std::vector<control::Slot> slots;          // that it holds, at most kSlotsOfProgramMax
  std::bitset<control::kSlotCount> watched;  // whose owners it wants to hear of
  std::uint32_t awaited_events = 0;          // what the loop watches on its socket
  bool waits_for_turn = false;               // its user has had its share of the daemon's time
};

// A tool that root uses now. Programs of root have no rights over others: one may give up being root and keep its connection.
[[nodiscard]] inline bool acts_as_root(const Client& client) {
  return client.hello.role == control::Role::kTool && control::is_root_here(client.acting);
}
// The user of a program, and root, may know of it and of its counters.
[[nodiscard]] inline bool may_see(const Client& asker, const control::PeerIdentity& program) {
  return acts_as_root(asker) || control::is_one_user(asker.acting, program);
}

}  // namespace rrdma::daemon
