#include "transport/reliable/selective_repeat.h"

#include <algorithm>

#include "transport/completer.h"
#include "transport/reliable/flight_review.h"

namespace rrdma::transport {

using objects::SendEntry;

namespace {

constexpr std::uint32_t kReadPacketsMin = 4;  // if several READs may be in flight
constexpr std::uint32_t kReadsTogether = 4;   // enough: the next READ reveals a lost one

}  // namespace

// ---- answers ----

void SelectiveRepeat::acknowledged(const Moment& m, wire::Psn psn) const {
  FlightReview review(m);
  review.acknowledged(psn);
  review.conclude();
}

void SelectiveRepeat::executed(const Moment& m, wire::Psn end) const {
  FlightReview review(m);
  review.executed(end);
  review.conclude();
}

void SelectiveRepeat::arrived(const Moment& m, const wire::TransportPacket& packet) const {
  FlightReview review(m);
  review.arrived(packet.headers.bth.psn, packet.payload);
  review.conclude();
}

std::optional<std::uint64_t> SelectiveRepeat::awaiting(const Moment& m, wire::Psn psn) const {
  const RequesterState& req = m.qp.req;
  if (psn.before(req.sent) && !psn.before(req.una) && req.log.at(psn).response &&
      req.log.at(psn).fate != PacketFate::kDone) {
    for (std::uint64_t index = m.qp.send_queue.head(); index != req.started; ++index) {
      const SendEntry& entry = m.qp.send_queue.at(index);
      if (!entry.local_done && psn.before(entry.first_psn + entry.packet_count)) return index;
    }
  }
  ++m.qp.counters->stale_responses;
  return std::nullopt;
}

void SelectiveRepeat::responded(const Moment& m, const SendEntry&, wire::Psn first, wire::Psn last,
                                bool alone) const {
  FlightReview review(m);
  review.responded(first, last, alone);
  review.conclude();
}

// ---- losses ----

// The missing response must come first: the peer dropped everything behind it.
void SelectiveRepeat::response_missing(const Moment& m) const {
  if (Completer(m.core, m.qp, m.now).told_already()) return;
  ++m.qp.counters->implied_naks;
  m.qp.req.repeating = true;
  m.qp.req.repeated_at = m.now;
  FlightReview(m).lose_from(m.qp.req.una);
}

void SelectiveRepeat::sequence_nak(const Moment& m) const {
  FlightReview review(m);
  review.on_loss();
  review.lose_from(m.qp.req.una);
  review.restart_timers();
}

// An RRDMA peer keeps the packets behind the one that it rejected.
void SelectiveRepeat::not_ready(const Moment& m) const {
  if ((m.qp.path.features & objects::kFeatureArrivals) != 0) {
    FlightReview(m).lose(m.qp.req.una);
  } else {
    FlightReview(m).lose_from(m.qp.req.una);
  }
}

// The peer may meanwhile have rejected another request as not ready. Send the oldest in any case.
void SelectiveRepeat::wait_over(const Moment& m) const {
  if (m.qp.req.una == m.qp.req.sent) return;
  FlightReview review(m);
  review.lose(m.qp.req.una);
  review.restart_timers();
}

// ---- time ----

void SelectiveRepeat::silence(const Moment& m) const {
  FlightReview review(m);
  m.qp.req.congestion->on_silence(m.congestion_view());
  review.lose_from(m.qp.req.una);
  review.restart_probe();
}

void SelectiveRepeat::early_timeout(const Moment& m) const {
  FlightReview review(m);
  review.probe();
  review.restart_probe();
}

void SelectiveRepeat::timer_ran(const Moment& m) const {
  const Instant allowed = m.qp.req.congestion.allowed_at();
  if (allowed > m.now) {
    m.core.timers.arm(m.qp, allowed);
  } else {
    m.core.schedule(m.qp);  // it may have waited for pacing
  }
}

// ---- sending ----

void SelectiveRepeat::sent(const Moment& m, const SentFrame& frame) const {
  RequesterState& req = m.qp.req;
  for (std::uint32_t i = 0; i < frame.packets; ++i) {
    const bool ends = frame.response && i + 1 == frame.packets;
    req.log.add(frame.first + i, m.now, frame.response, ends, frame.ack_requested);
  }
  if (frame.alone || req.early_deadline == kNever) FlightReview(m).restart_timers();
}

void SelectiveRepeat::sent_again(const Moment& m, wire::Psn first, std::uint32_t packets,
                                 bool ack_requested) {
  RequesterState& req = m.qp.req;
  const bool probe = req.log.at(first).probe;
  for (wire::Psn psn = first; psn != first + packets; ++psn) {
    if (req.log.at(psn).fate != PacketFate::kDone)
      req.log.send_again(psn, req.sent, m.now, ack_requested, probe);
  }
  m.core.set_flight(m.qp, req.log.under_way());
  if (req.early_deadline == kNever) FlightReview(m).restart_timers();
}

// A READ whose request is lost is repeated as a whole, and only a later READ reveals the loss. So after a
// loss keep several READs in flight, each cut to a share of the window. Use no more than necessary: long
// trains of responses cost less.
std::uint32_t SelectiveRepeat::read_packets(const QueuePair& qp, const SendEntry& entry) const {
  const std::uint32_t window = qp.req.congestion.window();
  const std::uint32_t most =
      std::clamp(std::max(kReadOctetsMax / qp.mtu, window / kReadsTogether), 1u, window);
  if (qp.packets_lost == 0) return most;
  const std::uint32_t share = window / std::clamp<std::uint32_t>(qp.attributes.max_reads, 1, kReadsTogether);
  return std::min(std::clamp(share, std::min(kReadPacketsMin, most), most), entry.packet_count);
}

}  // namespace rrdma::transport
