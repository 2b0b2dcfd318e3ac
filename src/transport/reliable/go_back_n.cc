#include "transport/reliable/go_back_n.h"

#include <algorithm>

#include "transport/completer.h"
#include "transport/qp/send_opcode.h"

namespace rrdma::transport {

using objects::SendEntry;

// ---- answers ----

void GoBackN::acknowledged(const Moment& m, wire::Psn psn) const {
  if (!acknowledge(m, psn)) response_missing(m);
}

void GoBackN::executed(const Moment& m, wire::Psn end) const {
  if (end.after(m.qp.req.una)) acknowledge(m, end - 1);
}

// A strict process on a host whose daemon announced the feature: the map is the NAK or ACK that it replaces.
void GoBackN::arrived(const Moment& m, const wire::TransportPacket& packet) const {
  const RequesterState& req = m.qp.req;
  wire::TransportHeaders plain = packet.headers;
  const wire::Psn expected = plain.bth.psn;
  if (expected == req.una && req.repeating) return;  // the peer reports a gap repeatedly; repeat it once
  if (expected == req.sent) {
    plain.bth.psn = expected - 1;
  } else {
    plain.aeth.syndrome = wire::kSyndromeSequenceNak;
  }
  Completer(m.core, m.qp, m.now).handle_acknowledge(plain);
}

// Only the oldest entry may receive a response.
std::optional<std::uint64_t> GoBackN::awaiting(const Moment& m, wire::Psn psn) const {
  const RequesterState& req = m.qp.req;
  if (!psn.before(req.sent) || psn.before(req.una)) {
    ++m.qp.counters->stale_responses;
    return std::nullopt;
  }
  if (psn != req.una && !acknowledge(m, psn - 1)) {
    // An earlier response is missing, or there is a gap before this one.
    response_missing(m);
    return std::nullopt;
  }
  if (!m.qp.can_send()) return std::nullopt;
  for (std::uint64_t index = m.qp.send_queue.head(); index != req.started; ++index) {
    const SendEntry& entry = m.qp.send_queue.at(index);
    if (entry.local_done) continue;
    const bool inside = !psn.before(entry.first_psn) && psn.before(entry.first_psn + entry.packet_count);
    if (inside && awaits_response(entry.opcode) && !entry.answered) return index;
    break;
  }
  ++m.qp.counters->stale_responses;
  return std::nullopt;
}

void GoBackN::responded(const Moment& m, const SendEntry& entry, wire::Psn first, wire::Psn last,
                        bool) const {
  count_answered_reads(m.qp.req, entry, first, last);
  if (entry.answered) {
    acknowledge(m, last);
  } else {
    advance(m, last + 1);
  }
}

// Counts the READs on the wire that end in [first, last] as answered.
void GoBackN::count_answered_reads(RequesterState& req, const SendEntry& entry, wire::Psn first,
                                   wire::Psn last) {
  if (!req.tx.after(last)) return;  // answers a packet sent before a rewind: advance() recounts
  const auto from = static_cast<std::uint32_t>(first.since(entry.first_psn));
  const auto to = static_cast<std::uint32_t>(last.since(entry.first_psn)) + 1;
  std::uint32_t ends = to / entry.read_packets - from / entry.read_packets;
  if (to == entry.packet_count && to % entry.read_packets != 0) ++ends;
  req.reads = static_cast<std::uint8_t>(req.reads - std::min<std::uint32_t>(req.reads, ends));
}

bool GoBackN::acknowledge(const Moment& m, wire::Psn psn) {
  wire::Psn una = psn + 1;
  bool complete = true;
  for (std::uint64_t index = m.qp.send_queue.head(); index != m.qp.req.started; ++index) {
    const SendEntry& entry = m.qp.send_queue.at(index);
    if (entry.local_done) continue;
    if (psn.before(entry.first_psn)) break;
    if (awaits_response(entry.opcode) && !entry.answered) {
      una = entry.first_psn + entry.received / m.qp.mtu;
      complete = false;
      break;
    }
    // If `psn` lies in this entry, retire() decides whether it is the entry's last packet.
    if (psn.before(entry.first_psn + entry.packet_count)) break;
  }
  advance(m, una);
  Completer(m.core, m.qp, m.now).retire();
  return complete;
}

void GoBackN::advance(const Moment& m, wire::Psn una) {
  RequesterState& req = m.qp.req;
  if (!una.after(req.una)) return;
  const auto packets = static_cast<std::uint32_t>(una.since(req.una));
  req.una = una;
  req.rewound_for_gap = req.repeating = false;
  req.attempts = 0;
  req.retries_left = m.qp.attributes.retry_count;
  req.rnr_left = m.qp.attributes.rnr_retry;
  if (req.tx.before(una)) {
    rewind(m);  // answers packets sent before the last rewind: do not send them again
  } else {
    m.core.set_flight(m.qp, static_cast<std::uint32_t>(req.tx.since(una)));
  }
  if (!m.qp.path.lossless) {
    // Karn: an answer after a retransmission does not measure the round trip, and a peer that is only slow
    // would get the next flight twice, too. Keep the longer delay until a round trip is measured.
    const bool sampled = req.timing && req.timed.before(una);
    if (sampled) {
      req.round_trip.sample(m.now - req.timed_since, m.now);
      req.timing = false;
      req.backoff = 0;
    }
    req.congestion->on_arrival(m.congestion_view(), packets, sampled);
  }
  restart_timers(m);
  m.core.schedule(m.qp);
}

// ---- losses ----

void GoBackN::response_missing(const Moment& m) const {
  RequesterState& req = m.qp.req;
  if (!m.qp.can_send() || req.rewound_for_gap) return;
  ++m.qp.counters->implied_naks;
  req.rewound_for_gap = true;
  req.congestion->on_loss(m.congestion_view());
  rewind(m);
}

void GoBackN::sequence_nak(const Moment& m) const {
  m.qp.req.congestion->on_loss(m.congestion_view());
  rewind(m);
  restart_timers(m);
}

void GoBackN::rewind(const Moment& m) {
  RequesterState& req = m.qp.req;
  std::uint64_t index = m.qp.send_queue.head();
  for (; index != req.started; ++index) {
    const SendEntry& entry = m.qp.send_queue.at(index);
    if (!entry.local_done && req.una.before(entry.first_psn + entry.packet_count)) break;
  }
  req.index = index;
  req.tx = req.una;
  req.reads = 0;
  req.since_ack_request = 0;
  req.timing = false;
  m.core.set_flight(m.qp, 0);
  m.core.schedule(m.qp);
}

// ---- time ----

void GoBackN::silence(const Moment& m) const {
  m.qp.req.congestion->on_silence(m.congestion_view());
  rewind(m);
}

void GoBackN::early_timeout(const Moment& m) const {
  RequesterState& req = m.qp.req;
  ++m.qp.counters->early_retransmits;
  req.backoff = std::min<std::uint8_t>(req.backoff + 1, kBackoffMax);
  silence(m);
  req.early_deadline = m.now + loss_delay(m);
}

// REQUIRES: the round trip is measured.
Duration GoBackN::loss_delay(const Moment& m) {
  const RequesterState& req = m.qp.req;
  const Duration delay = std::max(req.round_trip.patience(), m.core.config.early_retransmit_min);
  return Duration{delay.ns << req.backoff};
}

void GoBackN::restart_timers(const Moment& m) {
  RequesterState& req = m.qp.req;
  req.ack_deadline = req.early_deadline = kNever;
  if (req.una == req.tx) return;
  if (m.qp.ack_timeout.ns != 0) req.ack_deadline = m.now + m.qp.ack_timeout;
  if (!m.qp.path.lossless && req.round_trip.measured()) req.early_deadline = m.now + loss_delay(m);
  const Instant earliest = std::min(req.ack_deadline, req.early_deadline);
  if (earliest != kNever) m.core.timers.arm(m.qp, earliest);
}

// ---- sending ----

void GoBackN::sent(const Moment& m, const SentFrame& frame) const {
  RequesterState& req = m.qp.req;
  if (frame.ack_requested && !frame.again && !req.timing && !m.qp.path.lossless) {
    req.timing = true;
    req.timed = frame.first + (frame.packets - 1);
    req.timed_since = m.now;
  }
  if (req.ack_deadline == kNever) restart_timers(m);
}

std::uint32_t GoBackN::read_packets(const QueuePair& qp, const SendEntry&) const {
  return std::clamp(kReadOctetsMax / qp.mtu, 1u, qp.req.congestion.window());
}

}  // namespace rrdma::transport
