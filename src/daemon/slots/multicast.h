// Multicast: memberships of slot sockets. The kernel delivers a multicast datagram to every socket that
// joined its group, whatever the steering says, so a group is joined on the socket of the one slot that
// wants it. The socket outlives its program; memberships are therefore the daemon's, written into the
// ledger before they are made, and left when the slot is released.
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
