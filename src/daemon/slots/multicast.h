// Multicast: memberships of slot sockets. The kernel delivers a multicast datagram to every socket that
// joined its group, regardless of the steering. So only the socket of the slot that wants a group joins it.
// The socket outlives its program, so the daemon owns the memberships. It writes them into the ledger before
// it joins, and leaves them when the slot is released.
#pragma once

#include "daemon/slots/slots.h"

namespace rrdma::daemon {

class Multicast : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  Multicast(Slots& slots, Network& network, Counters& counters)
      : slots_(slots), network_(network), counters_(counters) {}

  Verdict handle_message(Client& client, control::Received& message) override;

 private:
  void join(Client& client, const control::Received& request, Slot slot, const GroupRow& group);
  void leave(Client& client, const control::Received& request, Slot slot, const GroupRow& group);

  Slots& slots_;
  Network& network_;
  Counters& counters_;
};

}  // namespace rrdma::daemon
