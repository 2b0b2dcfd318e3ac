// Server: connections, greetings, and the dispatch of messages. It owns the clients and defines the order of
// events: it reports the end of a client to every subsystem, then forgets it. Welcome waits until the network
// is settled.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/keys/key_source.h"
#include "daemon/client.h"
#include "daemon/counters.h"
#include "daemon/disposal.h"
#include "daemon/event_loop.h"
#include "daemon/registry/rounds.h"
#include "daemon/shares/shares.h"
#include "daemon/slots/network.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

struct ServerSettings {
  bool is_system = false;     // serves every user
  bool trusts_users = false;  // and gives each user sockets of the port
  bool stays = false;         // stays without clients, too
  Duration linger = seconds(5);
  Duration effort_of_user =
      milliseconds(5);  // per user of a system daemon, before its messages wait for those of others
};

class Server {
 public:
  // REQUIRES: all outlive this.
  Server(const ServerSettings& settings, EventLoop& loop, Network& network, Counters& counters,
         KeySource& keys);
  ~Server();

  // In the order in which messages are offered. REQUIRES: it outlives this.
  void add(Subsystem& subsystem) { subsystems_.push_back(&subsystem); }
  // Accepts connections on a listening socket, which the server then owns.
  void serve(OwnedFd listener);
  // Called after the network came up, before clients learn of it.
  void on_network_up(std::function<void()> callback) { network_up_.push_back(std::move(callback)); }
  // Called after a client was welcomed.
  void on_welcome(std::function<void(Client&)> callback) { welcomed_ = std::move(callback); }
  // Called for each slot that a program claims from an earlier daemon; false: another client has it.
  void on_claim(std::function<bool(Client&, const control::SlotClaim&)> callback) {
    claim_ = std::move(callback);
  }

  // Runs until stop(), or until the last client has been gone for the linger time.
  void run();
  // One turn: waits for events, at most until the deadline, and handles them and the timers that are due.
  void run_once(Instant deadline);
  void stop() { stopped_ = true; }
  // Admits a new connection; strangers are rejected before any state is kept for them.
  void admit(OwnedFd socket, const control::PeerIdentity& peer);
  // For descriptors of strangers: the loop must not close them.
  [[nodiscard]] Disposal& disposal() { return disposal_; }
  // For work that grows with the number of clients.
  [[nodiscard]] Rounds& rounds() { return rounds_; }
  // Ends the keepers if no program needs the sockets any longer. The last call before exit.
  void retire_keepers();

  template <typename Visitor>
  void for_each_client(Visitor visitor) {
    for (auto& [fd, client] : clients_) {
      if (client->greeted && !client->doomed()) visitor(*client);
    }
  }
  // The next greeted client in descriptor order, to build a long list in parts.
  [[nodiscard]] Client* client_after(int fd);
  // A holder of the parking can read every slot, so only programs of the daemon's own user may hold it, and
  // none of a daemon that serves other users.
  [[nodiscard]] bool may_hold_parking(const Client& client) const;
  [[nodiscard]] std::size_t client_count() const;
  [[nodiscard]] std::size_t keeper_count() const;
  [[nodiscard]] const ServerSettings& settings() const { return settings_; }
  [[nodiscard]] Instant started_at() const { return started_at_; }

 private:
  void watch_listener(int fd);
  void pause_listeners(Instant now);
  void resume_listeners();
  [[nodiscard]] bool may_accept(int listener);
  void handle_connection(int listener);
  void handle_client_event(Client& client, std::uint32_t events);
  void flush(Client& client);
  void receive_from(Client& client);
  // Whether the user has used its time of this turn; `again_at` is then the time when it is served again.
  [[nodiscard]] bool has_used_its_time(uid_t account, Instant now, Instant& again_at);
  // Then the client's messages wait for the next turn.
  [[nodiscard]] bool must_wait(Client& client, Instant now);
  void charge(uid_t account, Instant since, Duration spent);
  void resume_waiting(Instant now);
  [[nodiscard]] bool may_explain(uid_t account);
  void turn_away(std::unique_ptr<Client> client, std::string sentence);
  void dispatch(Client& client, control::Received& message);
  void handle_hello(Client& client, control::Received& message);
  void refuse(Client& client, const control::Received& message, std::string sentence);
  [[nodiscard]] bool may_be_served(const Client& client, control::Role role) const;
  void welcome(Client& client);
  void settle(Instant now);
  void watch_lock();
  // The end of a turn: watches for what the clients wait for, and forgets those that are doomed.
  void follow_changes();
  // False if the client's user has used its time: its end waits for the user's next turn.
  bool bury(Client& client);
  void update_watch(Client& client);
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] Instant leaves_at() const;
  [[nodiscard]] bool may_leave(Instant now);

  const ServerSettings settings_;
  EventLoop& loop_;
  Network& network_;
  Counters& counters_;
  KeySource& keys_;
  std::vector<Subsystem*> subsystems_;
  Rounds rounds_{*this};
  std::vector<OwnedFd> listeners_;
  Disposal disposal_;
  Shares connections_;
  Shares refusals_;
  Unread unread_refusals_;
  OutboxShares outboxes_;
  // The time spent on the messages of a user since `since`.
  struct Effort {
    static constexpr Duration kPeriod = milliseconds(20);
    Instant since;
    Duration spent;
    // The time when a user that has used its share is served again. In the long run it gets a quarter,
    // however long one message takes.
    [[nodiscard]] Instant again_at() const { return since + std::max(kPeriod, spent * 4); }
  };
  std::map<uid_t, Effort> efforts_;
  // The descriptors of clients. There may be thousands of clients: a turn looks only at those that changed.
  std::vector<int> changed_;
  std::vector<int> unburied_;  // doomed ones, whose end waits for the next turn of their user
  std::set<int> unwelcomed_;   // sent Hello, but the network is not settled
  std::set<std::pair<Instant, int>> ungreeted_;  // sent no Hello yet, by the time of their connection
  std::vector<int> waiting_;  // clients that are not read until the next turn of their user
  Instant reads_again_at_ = kNever;
  Instant buries_again_at_ = kNever;  // kNever: unburied_ is empty
  std::map<int, std::unique_ptr<Client>> clients_;
  Instant accepts_again_at_ = kNever;  // kNever: listeners are watched
  std::vector<std::function<void()>> network_up_;
  std::function<bool(Client&, const control::SlotClaim&)> claim_;
  std::function<void(Client&)> welcomed_;
  bool serves_lock_ = false;
  bool network_was_up_ = false;
  bool stopped_ = false;
  Instant started_at_;
  Instant alone_since_;  // kNever while there are clients
};

}  // namespace rrdma::daemon
