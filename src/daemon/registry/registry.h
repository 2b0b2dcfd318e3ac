// Registry: answers the tools' questions about the daemon and its programs. A user sees its own programs,
// root sees all. A process page goes only to users that may see its program, and is read-only. A long list is
// sent in parts as its reader reads it, one list of each user at a time, and is never stored whole.
#pragma once

#include <map>

#include "daemon/slots/slots.h"

namespace rrdma::daemon {

class Registry : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  Registry(Server& server, Slots& slots, Network& network, Counters& counters)
      : server_(server), slots_(slots), network_(network), counters_(counters) {}

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;
  [[nodiscard]] Instant next_deadline() const override { return go_on_at_; }
  void handle_deadline(Instant now) override;

 private:
  struct Listing {
    std::uint32_t serial = 0;
    int last = -1;  // the descriptor of the last client that was listed
  };
  void list_programs(Client& client, const control::Received& request);
  // True when the list is complete.
  bool go_on(Client& client, Listing& listing);
  void describe_daemon(Client& client, const control::Received& request);

  Server& server_;
  Slots& slots_;
  Network& network_;
  Counters& counters_;
  std::map<Client*, Listing> listings_;  // waiting for their reader
  Instant go_on_at_ = kNever;
};

}  // namespace rrdma::daemon
