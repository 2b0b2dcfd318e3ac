// Registry: what the tools ask about the daemon and the programs that use it. A user sees the programs of
// that user, root sees all; a process page goes only to who may see its program, and cannot be written.
#pragma once

#include "daemon/slots/slots.h"

namespace rrdma::daemon {

class Registry : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  Registry(Server& server, Slots& slots, Network& network, Counters& counters)
      : server_(server), slots_(slots), network_(network), counters_(counters) {}

  Verdict handle_message(Client& client, control::Received& message) override;

 private:
  void list_programs(Client& client, const control::Received& request);
  void describe_daemon(Client& client, const control::Received& request);

  Server& server_;
  Slots& slots_;
  Network& network_;
  Counters& counters_;
};

}  // namespace rrdma::daemon
