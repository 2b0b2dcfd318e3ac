// Registry: what the tools ask about the daemon and the programs that use it. A user sees the programs of
// that user, root sees all; a process page goes only to who may see its program, and cannot be written. A
// long list goes out as fast as its reader takes it, and is never kept whole.
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
    int last = -1;  // the descriptor of the client that was told of last
  };
  void list_programs(Client& client, const control::Received& request);
  // True when the list is finished.
  bool go_on(Client& client, Listing& listing);
  void describe_daemon(Client& client, const control::Received& request);

  Server& server_;
  Slots& slots_;
  Network& network_;
  Counters& counters_;
  std::map<Client*, Listing> listings_;  // that wait for their reader
  Instant go_on_at_ = kNever;
};

}  // namespace rrdma::daemon
