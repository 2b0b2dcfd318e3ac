// Recovery: what answers tell a requester that keeps a FlightLog. It finds out which packets have arrived and
// which are lost, asks with a probe when it hears nothing, and leaves the sending again to the requester.
// Towards anybody: a sequence NAK means that all behind the gap is gone (go back N); the response that is
// missing among others is asked for alone. A peer of our own kind says in a bitmap what it holds.
// A short-lived view on one QP; the state is in QueuePair::req.
#pragma once

#include "transport/core.h"

namespace rrdma::transport {

class Recovery {
 public:
  Recovery(Core& core, QueuePair& qp, Instant now)
      : core_(core), qp_(qp), req_(qp.req), log_(qp.req.log), now_(now) {}

  // An ACK names `psn`.
  void acknowledged(wire::Psn psn);
  // All requests before `end` were executed; those that await a response still do.
  void executed(wire::Psn end);
  // A bitmap: everything before `expected`, and expected + i for each bit i (most significant bit first).
  void arrived(wire::Psn expected, Octets bits);
  // The responses [first, last] are here; `alone`: to a request for this one.
  void responded(wire::Psn first, wire::Psn last, bool alone = false);
  // Draws the conclusions of the above: estimates, losses, window, and the PSNs that are finished.
  void conclude();

  // What the peer will not take, or has dropped: everything from `from` on, or that one packet.
  void lose_from(wire::Psn from);
  void lose(wire::Psn psn, bool as_probe = false);

  // Nothing was heard for a while: asks with the oldest packet whether the rest has arrived; with more of them, or
  // copies of it, where that was in vain.
  void probe();
  void ask(wire::Psn psn);  // with that packet
  void restart_timers();
  void restart_probe();
  void on_loss();     // the peer found a gap
  void on_mark();     // a congestion notification came
  void on_silence();  // the ack timeout has passed

 private:
  void finish(wire::Psn psn);
  void note_arrival(wire::Psn psn);
  void judge_repairs();
  [[nodiscard]] bool doubtful(const PacketRecord& record) const;
  void find_lost();
  [[nodiscard]] bool lost_by_order(wire::Psn psn, const PacketRecord& record) const;
  bool advance();
  [[nodiscard]] bool kin() const { return (qp_.path.features & objects::kFeatureArrivals) != 0; }
  [[nodiscard]] CongestionView view() const { return {now_, req_.una, req_.sent, req_.round_trip, qp_.mtu}; }

  Core& core_;
  QueuePair& qp_;
  RequesterState& req_;
  FlightLog& log_;
  Instant now_;

  // Of the present answer.
  struct Point {
    Instant sent_at;
    wire::Psn psn;
    bool any = false;
  };
  Point latest_request_;   // the newest packet that it shows to have arrived
  Point latest_response_;  // the newest response that it brings
  bool answers_ = false;   // an answer to a request: the responses before it were sent before it
  bool to_probe_ = false;  // nothing but a probe has asked for it
  bool doubts_ = false;    // it tells of a probe, and may be to the copy before
  Instant probe_heard_;    // when the probe went that it answers; never: it answers none
  std::uint32_t finished_ = 0;
  std::uint32_t repaired_ = 0;  // of these, sent again
  std::uint32_t needless_ = 0;  // of these, surely for nothing
  wire::Psn repaired_behind_;   // the last of them was sent again behind all before this
  Duration sample_;
};

}  // namespace rrdma::transport
