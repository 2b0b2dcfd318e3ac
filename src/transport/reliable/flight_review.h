// FlightReview: interprets one answer for SelectiveRepeat. It determines which packets have arrived and which
// are lost, and sends a probe after silence. The requester retransmits. For any peer, a sequence NAK means
// that everything behind the gap is lost (go-back-N), and a single missing response is requested alone. An
// RRDMA peer reports the packets that it holds in a bitmap. A short-lived view of one QP; the state is in
// QueuePair::req.
#pragma once

#include "transport/core.h"

namespace rrdma::transport {

class FlightReview {
 public:
  explicit FlightReview(const Moment& m)
      : core_(m.core), qp_(m.qp), req_(m.qp.req), log_(m.qp.req.log), now_(m.now) {}

  // An ACK names `psn`.
  void acknowledged(wire::Psn psn);
  // The peer has executed all requests before `end`. Those that await a response still do.
  void executed(wire::Psn end);
  // A bitmap arrived: everything before `expected` is executed, and expected + i has arrived for each set bit
  // i (most significant bit first).
  void arrived(wire::Psn expected, Octets bits);
  // The responses [first, last] have arrived. `alone`: they answer a request for exactly this range.
  void responded(wire::Psn first, wire::Psn last, bool alone = false);
  // Draws conclusions from the calls above: updates estimates, losses and window, and retires finished PSNs.
  void conclude();

  // Marks packets lost that the peer rejected or dropped: everything from `from` on, or a single packet.
  void lose_from(wire::Psn from);
  void lose(wire::Psn psn, bool as_probe = false);

  // After a period of silence, asks with the oldest packet whether the rest has arrived. Repeated silence
  // sends more packets or copies.
  void probe();
  void ask(wire::Psn psn);  // probes with that packet
  void restart_timers();
  void restart_probe();
  void on_loss();  // the peer reported a gap

 private:
  void finish(wire::Psn psn);
  void note_arrival(wire::Psn psn);
  void judge_repairs();
  [[nodiscard]] bool doubtful(const PacketRecord& record) const;
  void find_lost();
  [[nodiscard]] bool lost_by_order(wire::Psn psn, const PacketRecord& record) const;
  bool advance();
  [[nodiscard]] bool kin() const { return (qp_.path.features & objects::kFeatureArrivals) != 0; }
  [[nodiscard]] CongestionView view() const { return Moment{core_, qp_, now_}.congestion_view(); }

  Core& core_;
  QueuePair& qp_;
  RequesterState& req_;
  FlightLog& log_;
  Instant now_;

  // State of the answer at hand.
  struct Point {
    Instant sent_at;
    wire::Psn psn;
    bool any = false;

    // Field by field: a copy of 13 bytes loads what was just stored, and waits for all stores before.
    void set(Instant at, wire::Psn packet) {
      sent_at = at;
      psn = packet;
      any = true;
    }
  };
  Point latest_request_;   // the newest packet that it shows to have arrived
  Point latest_response_;  // the newest response that it brings
  bool answers_ = false;   // it answers a request: earlier responses were sent before it
  bool to_probe_ = false;  // only a probe asked for it
  bool doubts_ = false;    // it mentions a probe, and may answer the probe's earlier copy
  Instant probe_heard_;    // send time of the probe that it answers; zero: it answers none
  std::uint32_t finished_ = 0;
  std::uint32_t repaired_ = 0;  // of these, sent again
  std::uint32_t needless_ = 0;  // of these, certainly in vain
  wire::Psn repaired_behind_;   // the last of them was sent again after all PSNs before this one
  Duration sample_;
};

}  // namespace rrdma::transport
