// SelectiveRepeat: recovery by a log of the packets in flight (docs/adr/0018). FlightReview reads each answer
// and finds the lost packets; the requester sends only these again.
#pragma once

#include "transport/reliable/loss_recovery.h"

namespace rrdma::transport {

class SelectiveRepeat final : public LossRecovery {
 public:
  void acknowledged(const Moment& m, wire::Psn psn) const override;
  void executed(const Moment& m, wire::Psn end) const override;
  void arrived(const Moment& m, const wire::TransportPacket& packet) const override;
  std::optional<std::uint64_t> awaiting(const Moment& m, wire::Psn psn) const override;
  void responded(const Moment& m, const objects::SendEntry& entry, wire::Psn first, wire::Psn last,
                 bool alone) const override;
  [[nodiscard]] bool accepts_trains() const override { return false; }
  void response_missing(const Moment& m) const override;
  void sequence_nak(const Moment& m) const override;
  void not_ready(const Moment& m) const override;
  void wait_over(const Moment& m) const override;
  void silence(const Moment& m) const override;
  void early_timeout(const Moment& m) const override;
  void timer_ran(const Moment& m) const override;
  void sent(const Moment& m, const SentFrame& frame) const override;
  [[nodiscard]] std::uint32_t read_packets(const QueuePair& qp,
                                           const objects::SendEntry& entry) const override;
  // Lost packets were sent again; only this strategy has any.
  static void sent_again(const Moment& m, wire::Psn first, std::uint32_t packets, bool ack_requested);
};

inline constexpr SelectiveRepeat kSelectiveRepeat;

}  // namespace rrdma::transport
