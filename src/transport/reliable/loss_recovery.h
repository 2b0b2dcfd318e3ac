// LossRecovery: how the requester of a reliable QP learns which packets have arrived, and which ones it sends
// again. The engine chooses one of two strategies when the QP connects:
//
//   GoBackN          strict mode, lossless paths: answers count in order, and after a loss everything is sent
//                    again from the oldest unacknowledged PSN on
//   SelectiveRepeat  all other paths: a log of the packets in flight shows which are lost; only these are
//                    sent again
//
// A strategy has no state of its own: it is in QueuePair::req. The completer and the requester do everything
// that both strategies have in common.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/core.h"

namespace rrdma::transport {

inline constexpr std::uint8_t kBackoffMax = 6;
inline constexpr std::uint32_t kReadOctetsMax =
    64 * 1024;  // of one READ on a lossy path, where windows are small

// One frame that was sent for the first time, or after the requester went back.
struct SentFrame {
  wire::Psn first;
  std::uint32_t packets;
  bool response;  // its request awaits a response
  bool ack_requested;
  bool again;  // some packet of it was sent before
  bool alone;  // nothing else was in flight
};

class LossRecovery {
 public:
  // ---- answers ----
  // An ACK names `psn`, which was sent and is not before the oldest unacknowledged PSN.
  virtual void acknowledged(const Moment& m, wire::Psn psn) const = 0;
  // The peer has executed all requests before `end`. Those that await a response still do.
  virtual void executed(const Moment& m, wire::Psn end) const = 0;
  // An RRDMA peer names its position and the packets that it holds beyond it.
  virtual void arrived(const Moment& m, const wire::TransportPacket& packet) const = 0;
  // The entry that awaits the response `psn`; counts a stale response if there is none.
  virtual std::optional<std::uint64_t> awaiting(const Moment& m, wire::Psn psn) const = 0;
  // The responses [first, last] to the entry were placed. `alone`: they answer a request for exactly this
  // range.
  virtual void responded(const Moment& m, const objects::SendEntry& entry, wire::Psn first, wire::Psn last,
                         bool alone) const = 0;
  // True if one frame may bring several responses.
  [[nodiscard]] virtual bool accepts_trains() const = 0;

  // ---- losses ----
  // The peer executed later requests, so the response to the oldest READ or ATOMIC was lost.
  virtual void response_missing(const Moment& m) const = 0;
  // The peer lacks the oldest PSN.
  virtual void sequence_nak(const Moment& m) const = 0;
  // The oldest PSN found no receive request; and later: the time that the peer asked for has passed.
  virtual void not_ready(const Moment& m) const = 0;
  virtual void wait_over(const Moment& m) const = 0;

  // ---- time ----
  virtual void silence(const Moment& m) const = 0;        // the ack timeout expired
  virtual void early_timeout(const Moment& m) const = 0;  // long before it; spends no retry
  virtual void timer_ran(const Moment& m) const = 0;      // after any of the two, or neither

  // ---- sending ----
  virtual void sent(const Moment& m, const SentFrame& frame) const = 0;
  // Response packets that one READ on the wire may request.
  [[nodiscard]] virtual std::uint32_t read_packets(const QueuePair& qp,
                                                   const objects::SendEntry& entry) const = 0;

 protected:
  ~LossRecovery() = default;
};

}  // namespace rrdma::transport
