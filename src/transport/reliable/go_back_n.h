// GoBackN: the recovery that the specification describes. Answers count in order. A loss, or silence, moves
// the requester back to the oldest unacknowledged PSN. Strict mode uses it, byte for byte as it was before
// packets were logged, and so do lossless paths.
#pragma once

#include "transport/reliable/loss_recovery.h"

namespace rrdma::transport {

class GoBackN final : public LossRecovery {
 public:
  void acknowledged(const Moment& m, wire::Psn psn) const override;
  void executed(const Moment& m, wire::Psn end) const override;
  void arrived(const Moment& m, const wire::TransportPacket& packet) const override;
  std::optional<std::uint64_t> awaiting(const Moment& m, wire::Psn psn) const override;
  void responded(const Moment& m, const objects::SendEntry& entry, wire::Psn first, wire::Psn last,
                 bool alone) const override;
  [[nodiscard]] bool accepts_trains() const override { return true; }
  void response_missing(const Moment& m) const override;
  void sequence_nak(const Moment& m) const override;
  void not_ready(const Moment& m) const override { rewind(m); }
  void wait_over(const Moment&) const override {}
  void silence(const Moment& m) const override;
  void early_timeout(const Moment& m) const override;
  void timer_ran(const Moment&) const override {}
  void sent(const Moment& m, const SentFrame& frame) const override;
  [[nodiscard]] std::uint32_t read_packets(const QueuePair& qp,
                                           const objects::SendEntry& entry) const override;

 private:
  // Everything up to and including `psn` has arrived. False if an earlier READ or ATOMIC lacks its response.
  static bool acknowledge(const Moment& m, wire::Psn psn);
  static void advance(const Moment& m, wire::Psn una);
  static void count_answered_reads(RequesterState& req, const objects::SendEntry& entry, wire::Psn first,
                                   wire::Psn last);
  // Sends again from the oldest unacknowledged PSN.
  static void rewind(const Moment& m);
  static void restart_timers(const Moment& m);
  [[nodiscard]] static Duration loss_delay(const Moment& m);
};

inline constexpr GoBackN kGoBackN;

}  // namespace rrdma::transport
