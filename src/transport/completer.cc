#include "transport/completer.h"

#include <algorithm>
#include <array>

#include "transport/qp/send_opcode.h"
#include "transport/reliable/loss_recovery.h"
#include "wire/rnr_timer.h"

namespace rrdma::transport {

using objects::Cause;
using objects::SendEntry;
using objects::Status;

namespace {

constexpr std::uint8_t kRnrForEver = 7;

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
  const wire::Psn psn = headers.bth.psn;
  const wire::Aeth& aeth = headers.aeth;
  ++qp_.counters->acks_received;
  const bool answer = aeth.is_ack() || aeth.is_nak() || aeth.is_rnr_nak();
  if (!psn.before(req_.sent) || !answer) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  if (psn.before(req_.una)) return;
  if (aeth.is_ack()) return recovery().acknowledged(moment(), psn);
  // A NAK names the PSN that it requests.
  recovery().executed(moment(), psn);
  if (!qp_.can_send()) return;  // an earlier entry failed
  if (psn != req_.una) {
    recovery().response_missing(moment());
  } else if (aeth.is_rnr_nak()) {
    handle_rnr(aeth.code());
  } else {
    handle_nak(aeth.code());
  }
}

void Completer::handle_arrivals(const wire::TransportPacket& packet) {
  const wire::Psn expected = packet.headers.bth.psn;
  if (expected.after(req_.sent) || !packet.headers.aeth.is_ack()) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  ++qp_.counters->arrivals_received;
  if (!expected.before(req_.una)) recovery().arrived(moment(), packet);
}

void Completer::fail_entry(SendEntry& entry, Status status, Cause cause) {
  entry.status = status;
  req_.failure = cause;
  retire();
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
  FailedRequest failed = failed_send(qp_, queue.at(queue.head()), status, cause, now_);
  failed.elements = queue.list(queue.head());
  core_.events.on_request_failed(qp_, failed);
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

// More packets were in flight behind the missing or rejected one, and not every peer stays silent about
// those. Linux rxe answers the packets behind an RNR NAK with a sequence NAK. A NAK that arrives too soon to
// answer the repetition says nothing new and is no failed attempt.
bool Completer::told_already() const {
  return req_.waiting_rnr || (req_.repeating && now_ - req_.repeated_at < req_.round_trip.smoothed() / 2);
}

// REQUIRES: the NAK names the oldest unacknowledged PSN.
void Completer::handle_nak(std::uint8_t code) {
  if (static_cast<wire::NakCode>(code) == wire::NakCode::kSequenceError) {
    ++qp_.counters->sequence_naks_received;
    if (told_already()) return;
    ++qp_.sequence_naks;
    qp_.attempts.syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | code);
    if (!spend_retry(Cause::kPeerKeepsNaking)) return;
    note_attempt(Attempt::Why::kSequenceNak, now_);
    recovery().sequence_nak(moment());
    req_.repeating = true;
    req_.repeated_at = now_;
    return;
  }
  ++qp_.counters->fatal_naks_received;
  qp_.attempts.syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | code);
  const NakMeaning meaning = meaning_of(code);
  fail_oldest(meaning.status, meaning.cause);
}

void Completer::handle_rnr(std::uint8_t timer_code) {
  if (req_.waiting_rnr) return;
  qp_.count(&Counters::rnr_naks_received, &QueuePair::rnr_naks);
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
  recovery().not_ready(moment());
  req_.waiting_rnr = true;
  req_.rnr_until = now_ + rnr_delay(timer_code);
  req_.ack_deadline = req_.early_deadline = kNever;
  core_.timers.arm(qp_, req_.rnr_until);
}

void Completer::refuse_response(std::uint64_t index, Status status, Cause cause) {
  // The response proves that everything before it was executed.
  recovery().executed(moment(), qp_.send_queue.at(index).first_psn);
  if (index != qp_.send_queue.head()) {
    ++qp_.counters->dropped_bogus_ack;
    return;
  }
  fail_oldest(status, cause);
}

void Completer::handle_read_response(const wire::TransportPacket& packet) {
  const wire::Psn psn = packet.headers.bth.psn;
  const auto index = recovery().awaiting(moment(), psn);
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
    entry.answered = true;
    return recovery().responded(moment(), entry, psn, psn, false);
  }
  const std::uint32_t packets = qp_.packets_of(length);
  const std::uint32_t offset = static_cast<std::uint32_t>(psn.since(entry.first_psn)) * qp_.mtu;
  const bool whole = length % qp_.mtu == 0 && length != 0;
  if (entry.opcode != objects::SendOpcode::kRead || length > entry.length - offset ||
      (!whole && offset + length != entry.length) || (packets != 1 && !recovery().accepts_trains()))
    return refuse_response(*index, Status::kBadResponse, Cause::kPeerBadResponse);
  if (const Cause cause = place_read(*index, offset, packet.payload); cause != Cause::kNone)
    return refuse_response(*index, Status::kLocalProtectionError, cause);
  qp_.count(&Counters::octets_received, &QueuePair::octets_received, length);
  entry.received += length;
  const bool alone = shape.starts_message && shape.ends_message && entry.read_packets > 1;
  entry.answered = entry.received == entry.length;
  recovery().responded(moment(), entry, psn, psn + (packets - 1), alone);
}

// The last bytes of a message must become visible last: hold them back while earlier ones are missing.
Cause Completer::place_read(std::uint64_t index, std::uint32_t offset, Octets payload) {
  SendEntry& entry = qp_.send_queue.at(index);
  const auto list = qp_.send_queue.list(index);
  const auto length = static_cast<std::uint32_t>(payload.size());
  const auto scatter = [&](std::uint32_t at, Octets octets, bool last) {
    return objects::scatter(core_.memory, *qp_.pd, list, at, octets, last, core_.staging,
                            {.qpn = qp_.qpn, .answers = true});
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
  const auto index = recovery().awaiting(moment(), psn);
  if (!index) return;
  SendEntry& entry = qp_.send_queue.at(*index);
  const bool atomic =
      entry.opcode == objects::SendOpcode::kCompareSwap || entry.opcode == objects::SendOpcode::kFetchAdd;
  if (!atomic || !headers.aeth.is_ack())
    return refuse_response(*index, Status::kBadResponse, Cause::kPeerBadResponse);
  std::array<std::uint8_t, 8> value;
  store_native(value.data(), headers.atomic_ack.original);
  const Cause cause = objects::scatter(core_.memory, *qp_.pd, qp_.send_queue.list(*index), 0, value, true,
                                       core_.staging, {.qpn = qp_.qpn, .answers = true});
  if (cause != Cause::kNone) return refuse_response(*index, Status::kLocalProtectionError, cause);
  entry.answered = true;
  recovery().responded(moment(), entry, psn, psn, false);
}

// A network shows the end of a process only by silence. Programs rely on that: one that counts the messages
// of several QPs has polled all ACKs, and ended, before an error can come. So the error comes after that
// silence, or after a part of it that is long enough to poll.
void Completer::fail_after_silence() {
  constexpr Duration kSilenceMax = milliseconds(100);
  const Duration timeout = qp_.ack_timeout.ns == 0 ? kSilenceMax : std::min(qp_.ack_timeout, kSilenceMax);
  const std::int64_t attempts = req_.retries_left + 1;
  req_.fails_at = now_ + std::min(Duration{timeout.ns * attempts}, kSilenceMax);
  req_.waiting_rnr = false;
  core_.timers.arm(qp_, req_.fails_at);
}

void Completer::handle_timeout() {
  if (!qp_.can_send()) return;
  if (req_.fails_at != kNever) {
    if (qp_.send_queue.empty()) return;
    if (now_ >= req_.fails_at) return fail_oldest(Status::kRetryExceeded, Cause::kPeerGone);
    core_.timers.arm(qp_, req_.fails_at);
    return;
  }
  if (req_.waiting_rnr) {
    if (now_ < req_.rnr_until) {
      core_.timers.arm(qp_, req_.rnr_until);
      return;
    }
    ++qp_.counters->rnr_timeouts;
    req_.waiting_rnr = false;
    recovery().wait_over(moment());
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
    req_.ack_deadline = now_ + qp_.ack_timeout;
    req_.early_deadline = kNever;
    recovery().silence(moment());
  } else if (now_ >= req_.early_deadline) {
    recovery().early_timeout(moment());
  }
  recovery().timer_ran(moment());
  const Instant earliest = std::min(req_.ack_deadline, req_.early_deadline);
  if (earliest != kNever) core_.timers.arm(qp_, earliest);
}

}  // namespace rrdma::transport
