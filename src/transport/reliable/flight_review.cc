#include "transport/reliable/flight_review.h"

#include <algorithm>

#include "transport/completer.h"
#include "transport/reliable/loss_recovery.h"

namespace rrdma::transport {

namespace {

constexpr std::uint8_t kProbesUntilBelieved = 2;
constexpr std::uint8_t kQuestionsLog2Max = 3;
// The tolerance narrows again after this many necessary repairs in a row.
constexpr std::uint32_t kRepairsUntilNarrower = 16;

}  // namespace

// ---- reading an answer ----

void FlightReview::finish(wire::Psn psn) {
  if (log_.at(psn).fate == PacketFate::kDone) return;
  note_arrival(psn);
  log_.become(psn, PacketFate::kDone);
}

// The peer has the packet, or its response is here. Counts only the first news since it was sent.
void FlightReview::note_arrival(wire::Psn psn) {
  const PacketRecord& record = log_.at(psn);
  if (record.fate == PacketFate::kArrived && !record.response) return;
  const Duration since = now_ - record.sent_at;
  // An answer that arrives sooner than a round trip refers to the first copy: the packet was late, not lost.
  // Not so after several probes without a sample: the path may have become shorter.
  const bool early =
      record.again && req_.backoff < kProbesUntilBelieved && since < req_.round_trip.minimum() * 3 / 4;
  if (record.again && record.fate == PacketFate::kUnderWay) {
    ++repaired_;
    needless_ += early ? 1 : 0;
    repaired_behind_ = record.probe ? req_.una : psn + record.behind;
  }
  if (!record.again) sample_ = since;
  Point& latest = record.response ? latest_response_ : latest_request_;
  const bool later =
      record.sent_at > latest.sent_at || (record.sent_at == latest.sent_at && psn.after(latest.psn));
  doubts_ |= doubtful(record);
  if (record.probe && record.response && !early && !doubtful(record)) probe_heard_ = record.sent_at;
  if (!early && !doubtful(record) && (!latest.any || later)) latest.set(record.sent_at, psn);
  ++finished_;
}

// Packets of one flow travel in order. If a repair seems to arrive before packets that were sent just before
// it, then the original copy arrived. Require two such packets, because one may be lost itself. A late packet
// widens the tolerance for the next ones, and necessary repairs narrow it again.
void FlightReview::judge_repairs() {
  if (repaired_ == 0) return;
  const auto under_way = [this](wire::Psn psn) {
    return !psn.before(req_.una) && psn.before(req_.sent) && log_.at(psn).fate == PacketFate::kUnderWay &&
           !log_.at(psn).again;
  };
  if (needless_ == 0 && under_way(repaired_behind_ - 1) && under_way(repaired_behind_ - 2)) needless_ = 1;
  if (needless_ != 0) {
    qp_.count(&Counters::spurious_repairs, &QueuePair::needless_repairs, needless_);
    const Duration step = std::max(req_.round_trip.minimum() / 4, req_.reorder_window);
    req_.reorder_window = std::min(req_.reorder_window + step, req_.round_trip.smoothed());
    req_.repairs_needed = 0;
  } else if (req_.reorder_window.ns != 0 && (req_.repairs_needed += repaired_) >= kRepairsUntilNarrower) {
    req_.repairs_needed = 0;
    req_.reorder_window = req_.reorder_window / 2;
  }
}

// An answer that mentions a probe may have been in flight before the probe, and then tells nothing about
// packets sent between the two copies. If it does answer the probe, silence follows, and the answer to the
// next probe is believed.
bool FlightReview::doubtful(const PacketRecord& record) const {
  return record.probe && !to_probe_ && !req_.doubted;
}

// An ACK names the PSN that requested it or, for a duplicate, the peer's current position.
void FlightReview::acknowledged(wire::Psn psn) {
  to_probe_ = !log_.at(psn).asked;
  executed(psn + 1);
}

void FlightReview::executed(wire::Psn end) {
  answers_ = true;
  if (!end.after(req_.executed)) return;
  wire::Psn psn = req_.executed.before(req_.una) ? req_.una : req_.executed;
  for (; psn.before(end); ++psn) {
    const PacketRecord& record = log_.at(psn);
    if (!record.response) {
      finish(psn);
    } else if (record.fate == PacketFate::kUnderWay || record.fate == PacketFate::kLost) {
      if (!record.again || record.fate == PacketFate::kLost) log_.become(psn, PacketFate::kArrived);
    }
  }
  req_.executed = end;
  // This acknowledges the request itself: its responses were sent before.
  const PacketRecord& named = log_.at(end - 1);
  if (named.response && named.fate == PacketFate::kArrived && !latest_request_.any && !doubtful(named))
    latest_request_.set(named.sent_at, end - 1);
}

void FlightReview::arrived(wire::Psn expected, Octets bits) {
  executed(expected);
  wire::Psn psn = expected;
  for (std::size_t i = 0; i < bits.size() * 8 && psn.before(req_.sent); ++i, ++psn) {
    if ((bits[i / 8] >> (7 - i % 8) & 1) == 0 || psn.before(req_.una)) continue;
    const PacketRecord& record = log_.at(psn);
    if (record.fate == PacketFate::kDone || record.fate == PacketFate::kArrived) continue;
    if (!record.response) {
      note_arrival(psn);
    } else if (!doubtful(record) && (!latest_request_.any || record.sent_at > latest_request_.sent_at)) {
      latest_request_.set(record.sent_at, psn);
    }
    // Not done: it may still find no receive request.
    log_.become(psn, PacketFate::kArrived);
  }
}

void FlightReview::responded(wire::Psn first, wire::Psn last, bool alone) {
  to_probe_ = alone && log_.at(first).probe;
  for (wire::Psn psn = first; !psn.after(last); ++psn) finish(psn);
  if (last.before(req_.executed)) return;
  const bool answers = answers_;
  executed(last + 1);
  answers_ = answers;
}

// ---- drawing conclusions ----

// Requests travel in order, so a packet is lost if it was sent before one that has arrived and has not
// arrived itself. Responses arrive in PSN order for requests of one time. A repeated request is served before
// younger ones and tells nothing about those.
bool FlightReview::lost_by_order(wire::Psn psn, const PacketRecord& record) const {
  if (record.fate != PacketFate::kUnderWay && record.fate != PacketFate::kArrived) return false;
  // Nothing sent before the silence can still arrive after the answer to the probe that ended it.
  if (record.response && record.sent_at + req_.round_trip.patience() <= probe_heard_) return true;
  if (record.response && psn.before(req_.executed)) {
    if (latest_response_.any && psn.before(latest_response_.psn) &&
        record.sent_at + req_.reorder_window <= latest_response_.sent_at)
      return true;
    return answers_ && latest_request_.any &&
           record.sent_at + req_.reorder_window <= latest_request_.sent_at &&
           (!record.again || record.sent_at < latest_request_.sent_at);
  }
  if (record.fate == PacketFate::kArrived || !latest_request_.any) return false;
  if (req_.reorder_window.ns != 0) return record.sent_at + req_.reorder_window < latest_request_.sent_at;
  return record.sent_at < latest_request_.sent_at ||
         (record.sent_at == latest_request_.sent_at && psn.before(latest_request_.psn));
}

// The search walks over the whole flight. While a late packet is at the front, every answer leaves a hole,
// but most answers come too soon to tell anything.
void FlightReview::find_lost() {
  const Instant latest = std::max(latest_request_.sent_at, latest_response_.sent_at);
  if (latest < req_.oldest_under_way + req_.reorder_window) return;
  std::uint32_t found = 0;
  bool response = false;
  req_.oldest_under_way = now_;
  std::uint32_t left = log_.under_way();
  for (wire::Psn psn = req_.una; left != 0 && psn != req_.sent; ++psn) {
    const PacketRecord& record = log_.at(psn);
    if (record.fate == PacketFate::kLost || record.fate == PacketFate::kDone ||
        (record.fate == PacketFate::kArrived && !record.response))
      continue;
    --left;
    if (!lost_by_order(psn, record)) {
      req_.oldest_under_way = std::min(req_.oldest_under_way, record.sent_at);
      continue;
    }
    response |= record.response && psn.before(req_.executed);
    log_.lose(psn, false);
    ++found;
  }
  if (found == 0) return;
  if (response) ++qp_.counters->implied_naks;
  qp_.count(&Counters::packets_lost, &QueuePair::packets_lost, found);
  req_.congestion->on_loss(view());
}

bool FlightReview::advance() {
  const wire::Psn before = req_.una;
  while (req_.una != req_.sent && log_.at(req_.una).fate == PacketFate::kDone) {
    if (log_.at(req_.una).ends_request && req_.reads != 0) --req_.reads;
    log_.retire(req_.una);
    ++req_.una;
  }
  if (req_.executed.before(req_.una)) req_.executed = req_.una;
  if (req_.una == before) return false;
  req_.repeating = false;
  req_.rnr_left = qp_.attributes.rnr_retry;
  return true;
}

void FlightReview::conclude() {
  if (sample_.ns != 0) {
    req_.round_trip.sample(sample_, now_);
    req_.backoff = 0;
  }
  req_.doubted = doubts_ && sample_.ns == 0;
  req_.probe_copies = 0;
  judge_repairs();
  const bool progress = advance() || finished_ != 0;
  if (progress) {
    req_.retries_left = qp_.attributes.retry_count;
    req_.attempts = 0;
  }
  if (finished_ != 0) req_.congestion->on_arrival(view(), finished_, sample_.ns != 0);
  // A response in order leaves nothing done beyond the oldest PSN, so there is no hole. Searching anyway
  // would walk over the whole flight for each packet of a READ.
  const bool hole = log_.done() + log_.arrived() != 0 || answers_ || probe_heard_.ns != 0;
  if (hole && log_.under_way() != 0) find_lost();
  if (progress) restart_timers();
  core_.set_flight(qp_, log_.under_way());
  core_.schedule(qp_);
  if (progress) Completer(core_, qp_, now_).retire();
}

void FlightReview::lose(wire::Psn psn, bool as_probe) {
  const PacketFate fate = log_.at(psn).fate;
  if (fate == PacketFate::kDone || fate == PacketFate::kLost) return;
  log_.lose(psn, as_probe);
  core_.set_flight(qp_, log_.under_way());
  core_.schedule(qp_);
}

void FlightReview::lose_from(wire::Psn from) {
  std::uint32_t found = 0;
  for (wire::Psn psn = from; psn.before(req_.sent); ++psn) {
    const PacketFate fate = log_.at(psn).fate;
    if (fate == PacketFate::kDone || fate == PacketFate::kLost) continue;
    log_.lose(psn, false);
    ++found;
  }
  req_.since_ack_request = 0;
  if (found != 0) core_.set_flight(qp_, log_.under_way());
  core_.schedule(qp_);
}

// ---- silence ----

void FlightReview::probe() {
  req_.backoff = std::min<std::uint8_t>(req_.backoff + 1, kBackoffMax);
  // Other lost packets may have to wait for room in a window that is full of packets the peer has dropped.
  if (req_.una == req_.sent || log_.at(req_.una).fate == PacketFate::kLost) return;
  // Losses come in bursts. If a burst swallows one probe after another, all their waiting times add up, so
  // send more at once. Another implementation gets one packet, as every responder must tolerate.
  std::uint32_t questions = kin() ? 1u << std::min<std::uint8_t>(req_.backoff - 1, kQuestionsLog2Max) : 1;
  for (wire::Psn psn = req_.una; questions != 0 && psn.before(req_.sent); ++psn) {
    const PacketFate fate = log_.at(psn).fate;
    if (fate == PacketFate::kDone || fate == PacketFate::kLost) continue;
    if (fate == PacketFate::kArrived && !log_.at(psn).response) continue;
    ask(psn);
    --questions;
    while (log_.at(psn).response && !log_.at(psn).ends_request && (psn + 1).before(req_.sent)) ++psn;
  }
  req_.probe_copies = static_cast<std::uint8_t>(questions);
}

void FlightReview::ask(wire::Psn psn) {
  qp_.count(&Counters::probes_sent, &QueuePair::probes);
  lose(psn, true);
}

void FlightReview::on_loss() {
  qp_.count(&Counters::packets_lost, &QueuePair::packets_lost);
  req_.congestion->on_loss(view());
}

void FlightReview::restart_timers() {
  req_.ack_deadline = req_.early_deadline = kNever;
  if (req_.una == req_.sent) return;
  if (qp_.ack_timeout.ns != 0) req_.ack_deadline = now_ + qp_.ack_timeout;
  restart_probe();
  core_.timers.arm(qp_, std::min(req_.ack_deadline, req_.early_deadline));
}

void FlightReview::restart_probe() {
  const EngineConfig& config = core_.config;
  const Duration patience = req_.round_trip.measured()
                                ? std::max(req_.round_trip.patience(), config.probe_min)
                                : config.probe_unmeasured;
  // While the number of probes grows, the time to wait for an answer does not.
  const std::uint8_t doublings =
      kin() ? std::max(req_.backoff, kQuestionsLog2Max) - kQuestionsLog2Max : req_.backoff;
  req_.early_deadline = now_ + Duration{patience.ns << doublings};
}

}  // namespace rrdma::transport
