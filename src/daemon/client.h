// Client: one connection to the daemon and the process behind it. Messages to a client never block the
// daemon: an outbox of bounded size holds the messages that its socket does not accept. The daemon does not
// read from a client that does not read its answers.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "control/identity.h"
#include "control/message_socket.h"
#include "control/messages.h"
#include "control/process_page.h"
#include "daemon/disposal.h"
#include "daemon/shares/shares.h"
#include "daemon/shares/unread.h"

namespace rrdma::daemon {

// A full outbox stops replies; events stop earlier.
inline constexpr std::size_t kOutboxMax = 256;
inline constexpr std::size_t kOutboxEventsMax = 192;
// The kernel's send buffer for a client that does not read: one of the longest messages, or some short ones.
// The kernel doubles it, and charges it to the daemon.
inline constexpr std::size_t kSendBuffer = control::kMessageMax;

// The shares of users in the outboxes of all clients: bytes, and the descriptors beside them. And what they
// have not read of messages that left the outboxes.
struct OutboxShares {
  Shares octets;
  Shares descriptors;
  Unread unread;
};

class Client {
 public:
  // `outboxes` counts the waiting messages; `disposal` takes descriptors that were passed on; `changed` gets
  // the descriptor of a client when it is doomed, or its backlog begins or ends. All outlive this.
  Client(OwnedFd socket, const control::PeerIdentity& peer, OutboxShares& outboxes, Disposal& disposal,
         std::vector<int>& changed, Instant now);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] const OwnedFd& socket() const { return socket_; }

  // Answers a request. False: the descriptors cannot be passed (see errno) or the client is gone.
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
  // False if it cannot be delivered: the client is behind or gone.
  template <typename Message>
  bool notify(const Message& message, std::span<const int> fds = {}) {
    return send(control::encode(message, 0), fds, kOutboxEventsMax);
  }
  // Whether an event can be delivered or kept, if its user's share is not used up.
  [[nodiscard]] bool takes_events() const { return outbox_.size() < kOutboxEventsMax; }
  // Sends waiting messages, as far as the socket accepts them.
  void flush();
  [[nodiscard]] bool has_backlog() const { return !outbox_.empty(); }

  // Returns its shares to the accounts. Afterwards any thread may destroy it.
  void settle_accounts();
  // Of the messages in its outbox.
  [[nodiscard]] std::size_t waiting_descriptors() const;

  // Ends the connection at the end of this turn of the loop, after all messages sent so far.
  void doom() {
    if (!std::exchange(doomed_, true)) note_change();
  }
  [[nodiscard]] bool doomed() const { return doomed_; }

 private:
  struct Outgoing {
    std::vector<std::uint8_t> datagram;
    std::vector<OwnedFd> fds;
  };
  bool send(std::vector<std::uint8_t> datagram, std::span<const int> fds, std::size_t outbox_max);
  // kRefused: see errno.
  control::SendOutcome pass_on(const std::vector<std::uint8_t>& datagram, std::span<const int> fds);
  [[nodiscard]] bool count(std::size_t octets, std::size_t descriptors);
  void discount(std::size_t octets, std::size_t descriptors);
  void note_change() { changed_.push_back(fd()); }

  OwnedFd socket_;
  OutboxShares& outboxes_;
  Disposal& disposal_;
  std::vector<int>& changed_;
  std::deque<Outgoing> outbox_;
  bool doomed_ = false;

 public:
  const control::PeerIdentity identity;  // of the connecting process, at the time of the connection
  const uid_t account;                   // charged for its resources (control::account_of)
  control::PeerIdentity acting;  // sender of the current message: the process may have changed its user
  [[nodiscard]] Payer payer() const { return {account, acting.uid != identity.uid}; }
  const Instant connected_at;
  OwnedFd process;  // a pidfd: a child that inherited the connection must not keep a dead program alive

  bool greeted = false;         // Welcome was sent
  bool awaits_welcome = false;  // Hello came, but the network is not settled
  std::uint32_t hello_serial = 0;
  control::Hello hello;
  std::uint64_t token = 0;
  std::optional<control::ProcessPageView> page;
  std::vector<control::Slot> slots;          // its slots, at most kSlotsOfProgramMax
  std::bitset<control::kSlotCount> watched;  // slots whose owners it watches
  std::uint32_t awaited_events = 0;          // events that the loop watches on its socket
  bool waits_for_turn = false;               // its user has used its share of the daemon's time
};

// Whether root uses this tool now. Programs of root have no rights over others: one may drop root and keep
// its connection.
[[nodiscard]] inline bool acts_as_root(const Client& client) {
  return client.hello.role == control::Role::kTool && control::is_root_here(client.acting);
}
// The user of a program, and root, may see it and its counters.
[[nodiscard]] inline bool may_see(const Client& asker, const control::PeerIdentity& program) {
  return acts_as_root(asker) || control::is_one_pod(asker.acting, program);
}

}  // namespace rrdma::daemon
