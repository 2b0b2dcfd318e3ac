// Rounds: visits all clients of the server on behalf of one account, such as to tell them of a program that
// ended. There may be thousands of clients, so a round takes several turns of the loop: each account has a
// bounded number of visits and messages in a turn, and its rounds follow one another.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>

#include "base/instant.h"
#include "daemon/client.h"

namespace rrdma::daemon {

class Server;

class Rounds {
 public:
  // Returns the number of messages that it sent to the client. Clients that connect during a round may be
  // visited or not.
  using Visit = std::function<std::size_t(Client&)>;
  // Called after the last visit, with the client that asked for the round; null if that is gone.
  using End = std::function<void(Client* asker)>;

  // REQUIRES: the server outlives this.
  explicit Rounds(Server& server) : server_(server) {}

  // The first visits are made at once, if the account has not used its turn. `asker` may be null.
  void begin(uid_t account, Client* asker, Visit visit, End end);
  // Whether the account may ask for another round. Rounds whose number has another bound need not ask.
  [[nodiscard]] bool has_room(uid_t account) const;
  void forget(const Client& client);
  [[nodiscard]] Instant next_deadline() const { return go_on_at_; }
  void handle_deadline(Instant now);

 private:
  struct Round {
    Client* asker;
    Visit visit;
    End end;
    int last = -1;  // the descriptor of the last client that was visited
  };
  struct Queue {
    std::deque<Round> rounds;
    Instant since{};  // the begin of its turn
    std::size_t visits = 0;
    std::size_t messages = 0;
  };
  void go_on(Queue& queue, Instant now);

  Server& server_;
  std::map<uid_t, Queue> queues_;
  Instant go_on_at_ = kNever;
};

}  // namespace rrdma::daemon
