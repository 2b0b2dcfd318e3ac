// GeneralServices: the reading end of slot 0, where datagrams for QP1 arrive (and whatever is for no slot
// at all). It turns a datagram and its control messages into FrameFields and hands it to the server,
// which asks the subsystems; it neither checks an ICRC nor answers anything.
#pragma once

#include "daemon/server.h"
#include "daemon/slots/network.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class GeneralServices : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  GeneralServices(Server& server, EventLoop& loop, Network& network, Counters& counters)
      : server_(server), loop_(loop), network_(network), counters_(counters) {}
  ~GeneralServices() override;

  Verdict handle_message(Client&, control::Received&) override { return Verdict::kOthers; }
  // Looks whether the network has come up and its sockets are to be watched; costs nothing afterwards.
  [[nodiscard]] Instant next_deadline() const override;
  void handle_deadline(Instant now) override;

 private:
  void receive_from(int socket);

  Server& server_;
  EventLoop& loop_;
  Network& network_;
  Counters& counters_;
  bool watches_ = false;
};

}  // namespace rrdma::daemon
