// Peers: lets programs on this host find each other by slot, exchange the descriptors of a shared-memory
// channel, and forward frames that the kernel merged into the wrong slot. Offers and frames go only between
// programs of one user. The daemon never inspects the content of an offer.
#pragma once

#include "daemon/slots/slots.h"

namespace rrdma::daemon {

class Peers : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  Peers(Slots& slots, Counters& counters) : slots_(slots), counters_(counters) {}

  Verdict handle_message(Client& client, control::Received& message) override;

 private:
  void look_up(Client& client, const control::Received& request, Slot slot);
  void offer(Client& client, const control::Received& request, control::OfferChannel& channel);
  void forward(Client& client, control::ForwardFrame& frame);

  Slots& slots_;
  Counters& counters_;
};

}  // namespace rrdma::daemon
