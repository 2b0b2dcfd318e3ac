#include "transport/completer.h"

#include <algorithm>
#include <array>

#include "transport/qp/send_opcode.h"
#include "transport/recovery.h"
#include "transport/requester.h"
#include "wire/rnr_timer.h"

namespace rrdma::transport {

using objects::Cause;
using objects::SendEntry;
using objects::Status;

namespace {

constexpr std::uint8_t kRnrForEver = 7;
constexpr std::uint8_t kBackoffMax = 6;
constexpr std::uint8_t kSequenceNak =
    wire::kSyndromeNakBase | static_cast<std::uint8_t>(wire::NakCode::kSequenceError);

struct NakMeaning {
  Status status;
  Cause cause;
};

NakMeaning meaning_of(std::uint8_t code) {
  switch (static_cast<wire::NakCode>(code)) {
    case wire::NakCode::kInvalidRequest:
      return {Status::kRemoteInvalidRequest, Cause::kPeerSaidInvalidRequest};
    case wire::NakCode::kRemoteAccessError: return {Status::kRemoteAccessError, Cause::kPeerSaidAccessError};
    default: return {Status::kRemoteOperationError, Cause::kPeerSaidOperationalError};
  }
}

}  // namespace

Duration rnr_delay(std::uint8_t code) {
  return nanoseconds(static_cast<std::int64_t>(wire::rnr_delay_ns(code)));
}

Duration ack_timeout_of(std::uint8_t code) {
  return code == 0 ? Duration{0} : nanoseconds(4096LL << (code & 0x1f));
}

void Completer::handle(const wire::TransportPacket& packet) {
  if (!qp_.can_send() || qp_.type == QpType::kXrcReceive) {
    ++qp_.counters->dropped_qp_state;
    return;
  }
  switch (wire::shape_of(packet.headers.bth.opcode).kind) {
    case wire::Kind::kAcknowledge: handle_acknowledge(packet.headers); break;
    case wire::Kind::kReadResponse: handle_read_response(packet); break;
    case wire::Kind::kAtomicAcknowledge: handle_atomic_acknowledge(packet.headers); break;
    case wire::Kind::kArrivals: handle_arrivals(packet); break;
    default: break;
  }
}

void Completer::handle_acknowledge(const wire::TransportHeaders& headers) {
  if (req_.log.enabled()) return handle_logged_acknowledge(headers);
  const wire::Psn psn = headers.bth.psn;
  const wire::Aeth& aeth = headers.aeth;
  ++qp_.counters->acks_received;
  // Answers to PSNs that were never sent, or were answered long ago. A NAK names the PSN that it requests.
  if (!psn.before(req_.sent)) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  if (psn.before(req_.una)) return;
  if (aeth.is_ack()) {
    if (!acknowledge(psn)) implied_nak();
    return;
  }
  if (!aeth.is_nak() && !aeth.is_rnr_nak()) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  if (psn != req_.una && !acknowledge(psn - 1)) {
    implied_nak();
    return;
  }
  if (!qp_.can_send()) return;  // an earlier entry failed
  if (aeth.is_rnr_nak()) {
    handle_rnr(aeth.code());
  } else {
    handle_nak(psn, aeth.code());
  }
}

void Completer::handle_logged_acknowledge(const wire::TransportHeaders& headers) {
  const wire::Psn psn = headers.bth.psn;
  const wire::Aeth& aeth = headers.aeth;
  ++qp_.counters->acks_received;
  const bool answer = aeth.is_ack() || aeth.is_nak() || aeth.is_rnr_nak();
  if (!psn.before(req_.sent) || !answer) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  if (psn.before(req_.una)) return;
  Recovery recovery(core_, qp_, now_);
  if (aeth.is_ack()) {
    recovery.acknowledged(psn);
  } else {
    recovery.executed(psn);
  }
  recovery.conclude();
  if (aeth.is_ack() || !qp_.can_send()) return;
  if (psn != req_.una) {
    // The response to an earlier READ or ATOMIC is missing and must come first. The peer dropped everything behind
    // it.
    if (told_already()) return;
    ++qp_.counters->implied_naks;
    req_.repeating = true;
    req_.repeated_at = now_;
    recovery.lose_from(req_.una);
  } else if (aeth.is_rnr_nak()) {
    handle_rnr(aeth.code());
  } else {
    handle_nak(psn, aeth.code());
  }
}

// An RRDMA peer holds the named packets until it can execute them. A requester without a log (a strict process on a
// host whose daemon announced the feature) treats the map as the NAK or ACK that it replaces.
void Completer::handle_arrivals(const wire::TransportPacket& packet) {
  const wire::Psn expected = packet.headers.bth.psn;
  if (expected.after(req_.sent) || !packet.headers.aeth.is_ack()) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  ++qp_.counters->arrivals_received;
  if (expected.before(req_.una)) return;
  if (!req_.log.enabled()) {
    if (expected == req_.una && req_.repeating) return;  // the peer reports a gap repeatedly; repeat it once
    wire::TransportHeaders plain = packet.headers;
    if (expected == req_.sent) {
      plain.bth.psn = expected - 1;
    } else {
      plain.aeth.syndrome = kSequenceNak;
    }
    return handle_acknowledge(plain);
  }
  Recovery recovery(core_, qp_, now_);
  recovery.arrived(expected, packet.payload);
  recovery.conclude();
}

bool Completer::acknowledge(wire::Psn psn) {
  wire::Psn una = psn + 1;
  bool complete = true;
  std::uint64_t index = qp_.send_queue.head();
  for (; index != req_.started; ++index) {
    const SendEntry& entry = qp_.send_queue.at(index);
    if (entry.local_done) continue;
    if (psn.before(entry.first_psn)) break;
    if (awaits_response(entry.opcode) && !entry.answered) {
      una = entry.first_psn + entry.received / qp_.mtu;
      complete = false;
      break;
    }
    if (psn.before(entry.first_psn + entry.packet_count)) {
      // `psn` lies in this entry. retire() decides whether it is the entry's last packet.
      break;
    }
  }
  advance(una);
  retire();
  return complete;
}

void Completer::advance(wire::Psn una) {
  if (!una.after(req_.una)) return;
  const auto packets = static_cast<std::uint32_t>(una.since(req_.una));
  req_.una = una;
  req_.rewound_for_gap = req_.repeating = false;
  req_.attempts = 0;
  req_.retries_left = qp_.attributes.retry_count;
  req_.rnr_left = qp_.attributes.rnr_retry;
  if (req_.tx.before(una)) {
    // Answers packets sent before the rewind: do not send them again.
    Requester(core_, qp_, now_).rewind();
  } else {
    core_.set_flight(qp_, static_cast<std::uint32_t>(req_.tx.since(una)));
  }
  if (!qp_.path.lossless) {
    req_.window.on_progress(packets, una);
    // Karn: an answer after a retransmission does not measure the round trip, and a peer that is only slow would get
    // the next flight twice, too. Keep the longer delay until a round trip is measured.
    if (req_.window.sample_end(una - 1, now_)) req_.backoff = 0;
  }
  restart_timers();
  core_.schedule(qp_);
}

void Completer::restart_timers() {
  if (req_.log.enabled()) return Recovery(core_, qp_, now_).restart_timers();
  req_.ack_deadline = req_.early_deadline = kNever;
  if (req_.una == req_.tx) return;
  if (qp_.ack_timeout.ns != 0) req_.ack_deadline = now_ + qp_.ack_timeout;
  const Duration delay{std::max(req_.window.loss_delay().ns, core_.config.early_retransmit_min.ns)};
  if (!qp_.path.lossless && delay.ns < INT64_MAX / 8)
    req_.early_deadline = now_ + Duration{delay.ns << req_.backoff};
  const Instant earliest = std::min(req_.ack_deadline, req_.early_deadline);
  if (earliest != kNever) core_.timers.arm(qp_, earliest);
}

void Completer::retire() {
  auto& queue = qp_.send_queue;
  std::uint32_t retired = 0;
  while (!queue.empty()) {
    SendEntry& entry = queue.at(queue.head());
    if (entry.status != Status::kSuccess) {
      fail_oldest(entry.status, req_.failure);
      return;
    }
    if (queue.head() == req_.started) break;
    if (!entry.local_done) {
      if (req_.una.before(entry.first_psn + entry.packet_count)) break;
      if (awaits_response(entry.opcode) && !entry.answered) break;
    }
    // Retire first: a thread that polls the completion may post into the freed slot at once.
    const SendEntry& done = core_.take_oldest(qp_);
    if (req_.index < queue.head()) req_.index = queue.head();
    ++retired;
    core_.complete_send(qp_, done, Status::kSuccess, Cause::kNone, now_);
  }
  if (retired != 0) core_.schedule(qp_);
  core_.check_drained(qp_);
}

void Completer::fail_oldest(Status status, Cause cause) {
  auto& queue = qp_.send_queue;
  RRDMA_ASSERT(!queue.empty());
  core_.events.on_request_failed(qp_, failed_send(qp_, queue.at(queue.head()), status, cause, now_));
  core_.complete_send(qp_, core_.take_oldest(qp_), status, cause, now_);
  if (qp_.reliable()) {
    core_.fail_qp(qp_, now_);
    return;
  }
  // UC and UD: the send side stops, the receive side continues (SQE).
  qp_.state = QpState::kSendError;
  core_.stop_sending(qp_);
  core_.flush_sends(qp_, now_);
}

bool Completer::spend_retry(Cause cause) {
  if (req_.retries_left == 0) {
    fail_oldest(Status::kRetryExceeded, cause);
    return false;
  }
  --req_.retries_left;
  return true;
}

// `since`: start of the wait, if this is the first attempt.
void Completer::note_attempt(Attempt::Why why, Instant since) {
  AttemptHistory& history = qp_.attempts;
  if (req_.attempts == 0) history.since = since;
  history.last[req_.attempts % AttemptHistory::kKept] = {now_, why};
  if (req_.attempts != UINT8_MAX) ++req_.attempts;
}

// The peer answered a later request, so the response to the oldest READ or ATOMIC was lost.
void Completer::implied_nak() {
  if (!qp_.can_send() || req_.rewound_for_gap) return;
  ++qp_.counters->implied_naks;
  req_.rewound_for_gap = true;
  req_.window.on_loss(req_.sent);
  Requester(core_, qp_, now_).rewind();
}

// More packets were in flight behind the missing or rejected one, and not every peer stays silent about those. Linux
// rxe answers the packets behind an RNR NAK with a sequence NAK. A NAK that arrives too soon to answer the repetition
// says nothing new and is no failed attempt.
bool Completer::told_already() const {
  const Duration trip = req_.log.enabled() ? req_.round_trip.smoothed() : req_.window.smoothed();
  return req_.waiting_rnr || (req_.repeating && now_ - req_.repeated_at < trip / 2);
}

void Completer::handle_nak(wire::Psn psn, std::uint8_t code) {
  if (static_cast<wire::NakCode>(code) == wire::NakCode::kSequenceError) {
    ++qp_.counters->sequence_naks_received;
    if (told_already()) return;
    ++qp_.sequence_naks;
    qp_.attempts.syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | code);
    if (!spend_retry(Cause::kPeerKeepsNaking)) return;
    note_attempt(Attempt::Why::kSequenceNak, now_);
    if (req_.log.enabled()) {
      Recovery(core_, qp_, now_).on_loss();
    } else {
      req_.window.on_loss(req_.sent);
    }
    Requester(core_, qp_, now_).rewind();
    req_.repeating = true;
    req_.repeated_at = now_;
    restart_timers();
    return;
  }
  ++qp_.counters->fatal_naks_received;
  RRDMA_ASSERT(psn == req_.una);
  qp_.attempts.syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | code);
  const NakMeaning meaning = meaning_of(code);
  fail_oldest(meaning.status, meaning.cause);
}

void Completer::handle_rnr(std::uint8_t timer_code) {
  if (req_.waiting_rnr) return;
  ++qp_.counters->rnr_naks_received;
  ++qp_.rnr_naks;
  qp_.attempts.syndrome = static_cast<std::uint8_t>(wire::kSyndromeRnrBase | timer_code);
  req_.retries_left = qp_.attributes.retry_count;  // the packet arrived, so the path works
  if (qp_.attributes.rnr_retry != kRnrForEver) {
    if (req_.rnr_left == 0) {
      fail_oldest(Status::kRnrRetryExceeded, Cause::kPeerNotReady);
      return;
    }
    --req_.rnr_left;
  }
  note_attempt(Attempt::Why::kNotReady, now_);
  if (req_.log.enabled() && (qp_.path.features & objects::kFeatureArrivals) != 0) {
    Recovery(core_, qp_, now_).lose(req_.una);  // the peer keeps the rest
  } else {
    Requester(core_, qp_, now_).rewind();
  }
  req_.waiting_rnr = true;
  req_.rnr_until = now_ + rnr_delay(timer_code);
  req_.ack_deadline = req_.early_deadline = kNever;
  core_.timers.arm(qp_, req_.rnr_until);
}

std::optional<std::uint64_t> Completer::awaiting_logged(wire::Psn psn) {
  if (psn.before(req_.sent) && !psn.before(req_.una) && req_.log.at(psn).response &&
      req_.log.at(psn).fate != PacketFate::kDone) {
    for (std::uint64_t index = qp_.send_queue.head(); index != req_.started; ++index) {
      const SendEntry& entry = qp_.send_queue.at(index);
      if (!entry.local_done && psn.before(entry.first_psn + entry.packet_count)) return index;
    }
  }
  ++qp_.counters->stale_responses;
  return std::nullopt;
}

std::optional<std::uint64_t> Completer::awaiting(wire::Psn psn) {
  if (req_.log.enabled()) return awaiting_logged(psn);
  if (!psn.before(req_.sent) || psn.before(req_.una)) {
    ++qp_.counters->stale_responses;
    return std::nullopt;
  }
  if (psn != req_.una && !acknowledge(psn - 1)) {
    // An earlier response is missing, or there is a gap before this one.
    implied_nak();
    return std::nullopt;
  }
  if (!qp_.can_send()) return std::nullopt;
  for (std::uint64_t index = qp_.send_queue.head(); index != req_.started; ++index) {
    const SendEntry& entry = qp_.send_queue.at(index);
    if (entry.local_done) continue;
    const bool inside = !psn.before(entry.first_psn) && psn.before(entry.first_psn + entry.packet_count);
    if (inside && awaits_response(entry.opcode) && !entry.answered) return index;
    break;
  }
  ++qp_.counters->stale_responses;
  return std::nullopt;
}

void Completer::answered(SendEntry& entry, wire::Psn last) {
  entry.answered = true;
  if (!req_.log.enabled()) {
    acknowledge(last);
    return;
  }
  Recovery recovery(core_, qp_, now_);
  recovery.responded(last, last);
  recovery.conclude();
}

void Completer::answered_part(SendEntry& entry, wire::Psn first, wire::Psn last, bool alone) {
  if (!req_.log.enabled()) {
    count_answered_reads(entry, first, last);
    if (entry.received == entry.length) return answered(entry, last);
    return advance(last + 1);
  }
  entry.answered = entry.received == entry.length;
  Recovery recovery(core_, qp_, now_);
  recovery.responded(first, last, alone);
  recovery.conclude();
}

void Completer::refuse_response(std::uint64_t index, Status status, Cause cause) {
  if (req_.log.enabled()) {  // the response proves that everything before it was executed
    Recovery recovery(core_, qp_, now_);
    recovery.executed(qp_.send_queue.at(index).first_psn);
    recovery.conclude();
  }
  if (index != qp_.send_queue.head()) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  fail_oldest(status, cause);
}

void Completer::count_answered_reads(const SendEntry& entry, wire::Psn first, wire::Psn last) {
  if (!req_.tx.after(last)) return;  // answers a packet sent before a rewind: advance() recounts
  const auto from = static_cast<std::uint32_t>(first.since(entry.first_psn));
  const auto to = static_cast<std::uint32_t>(last.since(entry.first_psn)) + 1;
  std::uint32_t ends = to / entry.read_packets - from / entry.read_packets;
  if (to == entry.packet_count && to % entry.read_packets != 0) ++ends;
  req_.reads = static_cast<std::uint8_t>(req_.reads - std::min<std::uint32_t>(req_.reads, ends));
}

void Completer::handle_read_response(const wire::TransportPacket& packet) {
  const wire::Psn psn = packet.headers.bth.psn;
  const auto index = awaiting(psn);
  if (!index) return;
  SendEntry& entry = qp_.send_queue.at(*index);
  const auto shape = wire::shape_of(packet.headers.bth.opcode);
  if (shape.aeth && !packet.headers.aeth.is_ack()) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  const auto length = static_cast<std::uint32_t>(packet.payload.size());
  if (entry.opcode == objects::SendOpcode::kFlush || entry.opcode == objects::SendOpcode::kAtomicWrite) {
    if (!shape.ends_message || length != 0)
      return refuse_response(*index, Status::kBadResponse, Cause::kPeerBadResponse);
    if (!req_.log.enabled() && req_.reads != 0 && !req_.tx.before(psn + 1)) --req_.reads;
    answered(entry, psn);
    return;
  }
  const std::uint32_t packets = qp_.packets_of(length);
  const std::uint32_t offset = static_cast<std::uint32_t>(psn.since(entry.first_psn)) * qp_.mtu;
  const bool whole = length % qp_.mtu == 0 && length != 0 && (packets == 1 || !req_.log.enabled());
  if (entry.opcode != objects::SendOpcode::kRead || length > entry.length - offset ||
      (!whole && offset + length != entry.length) || (req_.log.enabled() && packets != 1))
    return refuse_response(*index, Status::kBadResponse, Cause::kPeerBadResponse);
  if (const Cause cause = place_read(*index, offset, packet.payload); cause != Cause::kNone)
    return refuse_response(*index, Status::kLocalProtectionError, cause);
  qp_.counters->octets_received += length;
  qp_.octets_received += length;
  entry.received += length;
  const bool alone = shape.starts_message && shape.ends_message && entry.read_packets > 1;
  answered_part(entry, psn, psn + (packets - 1), alone);
}

// The last bytes of a message must become visible last: hold them back while earlier ones are missing.
Cause Completer::place_read(std::uint64_t index, std::uint32_t offset, Octets payload) {
  SendEntry& entry = qp_.send_queue.at(index);
  const auto list = qp_.send_queue.list(index);
  const auto length = static_cast<std::uint32_t>(payload.size());
  const auto scatter = [&](std::uint32_t at, Octets octets, bool last) {
    return objects::scatter(core_.memory, *qp_.pd, list, at, octets, last);
  };
  const bool completes = entry.received + length == entry.length;
  if (completes && entry.tail.octets != 0) {
    if (const Cause cause = scatter(offset, payload, false); cause != Cause::kNone) return cause;
    return scatter(entry.length - entry.tail.octets, {entry.tail.data, entry.tail.octets}, true);
  }
  if (completes || offset + length != entry.length) return scatter(offset, payload, completes);
  const std::uint32_t kept = std::min<std::uint32_t>(length, sizeof entry.tail.data);
  if (length != kept) {
    if (const Cause cause = scatter(offset, payload.first(length - kept), false); cause != Cause::kNone)
      return cause;
  }
  std::copy_n(payload.end() - kept, kept, entry.tail.data);
  entry.tail.octets = static_cast<std::uint8_t>(kept);
  return Cause::kNone;
}

void Completer::handle_atomic_acknowledge(const wire::TransportHeaders& headers) {
  const wire::Psn psn = headers.bth.psn;
  const auto index = awaiting(psn);
  if (!index) return;
  SendEntry& entry = qp_.send_queue.at(*index);
  const bool atomic =
      entry.opcode == objects::SendOpcode::kCompareSwap || entry.opcode == objects::SendOpcode::kFetchAdd;
  if (!atomic || !headers.aeth.is_ack())
    return refuse_response(*index, Status::kBadResponse, Cause::kPeerBadResponse);
  std::array<std::uint8_t, 8> value;
  store_native(value.data(), headers.atomic_ack.original);
  const Cause cause = objects::scatter(core_.memory, *qp_.pd, qp_.send_queue.list(*index), 0, value, true);
  if (cause != Cause::kNone) return refuse_response(*index, Status::kLocalProtectionError, cause);
  if (!req_.log.enabled() && req_.reads != 0 && req_.tx.after(psn)) --req_.reads;
  answered(entry, psn);
}

void Completer::handle_silence() {
  if (req_.log.enabled()) return Recovery(core_, qp_, now_).on_silence();
  req_.window.on_silence(req_.sent);
  Requester(core_, qp_, now_).rewind();
}

// Runs long before the ack timeout and spends no retry.
void Completer::handle_early_timeout() {
  if (req_.log.enabled()) {
    Recovery recovery(core_, qp_, now_);
    recovery.probe();
    recovery.restart_probe();
    return;
  }
  ++qp_.counters->early_retransmits;
  req_.backoff = std::min<std::uint8_t>(req_.backoff + 1, kBackoffMax);
  handle_silence();
  const Duration delay{std::max(req_.window.loss_delay().ns, core_.config.early_retransmit_min.ns)};
  req_.early_deadline = now_ + Duration{delay.ns << req_.backoff};
}

void Completer::handle_timeout() {
  if (!qp_.can_send()) return;
  if (req_.waiting_rnr) {
    if (now_ < req_.rnr_until) {
      core_.timers.arm(qp_, req_.rnr_until);
      return;
    }
    ++qp_.counters->rnr_timeouts;
    req_.waiting_rnr = false;
    // The peer may meanwhile have rejected another request as not ready. Send the oldest in any case.
    if (req_.log.enabled() && req_.una != req_.sent) {
      Recovery recovery(core_, qp_, now_);
      recovery.lose(req_.una);
      recovery.restart_timers();
    }
    req_.repeating = true;
    req_.repeated_at = now_;
    core_.schedule(qp_);
    return;
  }
  const objects::PathProbe* probe = core_.config.probe;
  if (now_ >= req_.ack_deadline && qp_.path.lossless && probe != nullptr && !probe->answered(qp_.path)) {
    req_.ack_deadline = now_ + qp_.ack_timeout;  // a stopped process is not a loss
  } else if (now_ >= req_.ack_deadline) {
    ++qp_.counters->ack_timeouts;
    const Instant waiting_since = req_.ack_deadline - qp_.ack_timeout;
    if (!spend_retry(Cause::kPeerSilent)) return;
    ++qp_.ack_timeouts;
    note_attempt(Attempt::Why::kSilence, waiting_since);
    handle_silence();
    req_.ack_deadline = now_ + qp_.ack_timeout;
    req_.early_deadline = kNever;
    if (req_.log.enabled()) Recovery(core_, qp_, now_).restart_probe();
  } else if (now_ >= req_.early_deadline) {
    handle_early_timeout();
  }
  if (req_.log.enabled() && req_.congestion.allowed_at() > now_) {
    core_.timers.arm(qp_, req_.congestion.allowed_at());
  } else if (req_.log.enabled()) {
    core_.schedule(qp_);  // it may have waited for pacing
  }
  const Instant earliest = std::min(req_.ack_deadline, req_.early_deadline);
  if (earliest != kNever) core_.timers.arm(qp_, earliest);
}

}  // namespace rrdma::transport
