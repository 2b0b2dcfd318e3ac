#include "transport/requester.h"

#include <algorithm>
#include <array>

#include "transport/completer.h"
#include "transport/qp/send_opcode.h"
#include "transport/reliable/flight_review.h"
#include "transport/reliable/selective_repeat.h"
#include "transport/responder.h"
#include "wire/bth_words.h"

namespace rrdma::transport {

using objects::Cause;
using objects::Frame;
using objects::FrameSink;
using objects::SendEntry;
using objects::SendOpcode;
using objects::Status;
using wire::Step;

namespace {

// The budget of direct access counts bytes of ordinary memory. A copy to far memory costs as much as
// kFarStartOctets of them, and copies kFarSpeed times as fast.
constexpr std::uint32_t kFarStartOctets = 64 * 1024;
constexpr std::uint32_t kFarSpeed = 64;
constexpr std::uint32_t kFarPieceOctets = 256 * 1024 * 1024;

constexpr std::int32_t kPsnsOutstandingMax = 0x7fffff;
constexpr std::uint32_t kFramesBetweenAckRequests = 32;

}  // namespace

SendVerdict Requester::send_next(FrameSink& sink) {
  if (req_.log.lost() != 0 && qp_.can_send() && !req_.waiting_rnr) return send_repair(sink);
  while (qp_.can_send() && !req_.waiting_rnr && req_.index != qp_.send_queue.tail()) {
    SendEntry& entry = qp_.send_queue.at(req_.index);
    if (entry.status != Status::kSuccess) return SendVerdict::kNothing;  // fails when it is the oldest
    if (req_.index == req_.started) {
      const Start verdict = start(entry);
      if (verdict == Start::kWait) return SendVerdict::kNothing;
      if (verdict == Start::kYield) return SendVerdict::kNoRoom;
      if (verdict == Start::kExecuted) continue;
    }
    if (entry.local_done) {
      ++req_.index;
      continue;
    }
    if (awaits_response(entry.opcode) && req_.reads >= qp_.attributes.max_reads) return SendVerdict::kNothing;
    return send(next_place(), sink);
  }
  return SendVerdict::kNothing;
}

// The rules of start(), for a SEND.
bool Requester::goes_straight(const SendEntry& entry) const {
  const bool sends = entry.opcode == SendOpcode::kSend || entry.opcode == SendOpcode::kSendImmediate;
  const bool fenced = (entry.flags & objects::kSendFence) != 0 && req_.reads != 0;
  return sends && !fenced && req_.index == req_.started && entry.status == Status::kSuccess &&
         entry.length <= qp_.train_octets &&
         req_.next.since(req_.una) + static_cast<std::int64_t>(qp_.packets_of(entry.length)) <=
             kPsnsOutstandingMax;
}

bool Requester::send_straight(FrameSink& sink) {
  if (qp_.type != QpType::kRc || !qp_.path.lossless || qp_.state != QpState::kReadyToSend ||
      req_.waiting_rnr || req_.tx != req_.next || qp_.resp.cnp_due || qp_.responses.any_pending())
    return false;
  while (req_.index != qp_.send_queue.tail()) {
    SendEntry& entry = qp_.send_queue.at(req_.index);
    if ((qp_.resp.answer_due && !ack_may_ride(qp_)) || !goes_straight(entry)) return false;
    Frame* const frame = sink.reserve(qp_.path);
    if (frame == nullptr) return false;
    frame->clear();
    const Place place{req_.index, entry, req_.next, false};
    if (add_payload(place, 0, entry.length, *frame) != Cause::kNone) {
      sink.cancel(*frame);
      return false;
    }
    const std::uint32_t packets = qp_.packets_of(entry.length);
    entry.first_psn = req_.next;
    entry.packet_count = entry.read_packets = packets;
    req_.next = req_.next + packets;
    ++req_.started;
    const bool immediate = entry.opcode == SendOpcode::kSendImmediate;
    frame->pad = wire::pad_for(entry.length);
    std::uint8_t* const p =
        emit_base(*frame, place, immediate ? Step::kSendOnlyImmediate : Step::kSendOnly, true, frame->pad);
    if (immediate) wire::emit_immediate({entry.immediate_or_key}, p);
    frame->header_octets = wire::kBthOctets + (immediate ? wire::kImmediateOctets : 0);
    sent(place, *frame, sink, packets, true);
  }
  return !qp_.resp.answer_due;
}

SendVerdict Requester::send(const Place& place, FrameSink& sink) {
  if (!awaits_response(place.entry.opcode)) return send_data(place, sink);
  return place.entry.opcode == SendOpcode::kRead ? send_read(place, sink) : send_single(place, sink);
}

// ---- sending again ----

SendVerdict Requester::send_repair(FrameSink& sink) {
  const Place place = place_of_lost();
  if (place.entry.status != Status::kSuccess) return SendVerdict::kNothing;  // fails when it is the oldest
  const SendVerdict verdict = send(place, sink);
  if (verdict == SendVerdict::kSent && req_.probe_copies != 0 && req_.log.at(place.psn).probe) {
    --req_.probe_copies;
    FlightReview(moment()).ask(place.psn);
  }
  return verdict;
}

// REQUIRES: at least one packet is lost.
Requester::Place Requester::place_of_lost() {
  wire::Psn psn = req_.una;
  while (req_.log.at(psn).fate != PacketFate::kLost) ++psn;
  std::uint64_t index = qp_.send_queue.head();
  for (;; ++index) {
    SendEntry& entry = qp_.send_queue.at(index);
    if (!entry.local_done && psn.before(entry.first_psn + entry.packet_count)) break;
  }
  return {index, qp_.send_queue.at(index), psn, true};
}

// Assigns PSNs to an entry, or executes it if it is local.
Requester::Start Requester::start(SendEntry& entry) {
  if (qp_.state == QpState::kDrain) return Start::kWait;
  const bool fenced = (entry.flags & objects::kSendFence) != 0;
  if (fenced && req_.reads != 0) return Start::kWait;
  const bool no_reads = awaits_response(entry.opcode) && qp_.attributes.max_reads == 0;
  if (no_reads || !supports(qp_.type, entry.opcode)) {
    fail_entry(entry, Status::kLocalQpOperationError, Cause::kOperationNotAllowed);
    return Start::kWait;
  }
  if (is_local(entry.opcode)) return execute_local(entry);
  if (is_atomic(entry.opcode) && entry.length != kAtomicOctets) {
    fail_entry(entry, Status::kLocalLengthError, Cause::kMessageTooLong);
    return Start::kWait;
  }
  const bool far = core_.config.direct != nullptr && core_.config.direct->has_met_far() && targets_far(entry);
  // Waiting for the answers takes microseconds. Packets would take longer, and their answers too.
  if (far && req_.una != req_.next) return Start::kWait;
  if (may_go_direct(entry, far)) {
    const Start verdict = is_atomic(entry.opcode) ? execute_direct_atomic(entry) : execute_direct(entry, far);
    if (verdict != Start::kReady) return verdict;
  }
  req_.direct_goes_on = false;
  const bool whole_message =
      !entry.placed && (entry.opcode == SendOpcode::kRead || !awaits_response(entry.opcode));
  const std::uint32_t count = whole_message ? qp_.packets_of(entry.length) : 1;
  if (req_.next.since(req_.una) + static_cast<std::int64_t>(count) > kPsnsOutstandingMax) return Start::kWait;
  entry.first_psn = req_.next;
  entry.packet_count = count;
  entry.read_packets = qp_.path.lossless || entry.opcode != SendOpcode::kRead
                           ? count
                           : req_.recovery->read_packets(qp_, entry);
  req_.next = req_.next + count;
  ++req_.started;
  return Start::kReady;
}

Requester::Start Requester::execute_local(SendEntry& entry) {
  // A local invalidate must not overtake earlier READs: their responses may still be placed.
  if (entry.opcode == SendOpcode::kLocalInvalidate && req_.reads != 0) return Start::kWait;
  const Cause cause = change_keys(entry);
  if (cause != Cause::kNone) {
    fail_entry(entry, Status::kWindowBindError, cause);
    return Start::kWait;
  }
  return finish_local(entry);
}

Cause Requester::change_keys(const SendEntry& entry) {
  const objects::BindRequest& bind = entry.bind;
  if (entry.opcode == SendOpcode::kLocalInvalidate) {
    return core_.memory.invalidate({entry.immediate_or_key}, *qp_.pd, qp_.qpn) ? Cause::kNone
                                                                               : Cause::kInvalidateRefused;
  }
  if (entry.opcode == SendOpcode::kRenewRegion) {
    objects::MemoryRegion* region = core_.memory.find_region_of_any_variant(bind.region_key);
    const bool renewed =
        region != nullptr && region->renewable && region->pd == qp_.pd &&
        core_.memory.renew(*region, entry.rkey.value,
                           {.pd = region->pd,
                            .host = reinterpret_cast<void*>(std::uintptr_t{entry.remote_address}),
                            .length = bind.length,
                            .address = bind.address,
                            .access = bind.access,
                            .kind = region->kind});
    return renewed ? Cause::kNone : Cause::kWindowBindRefused;
  }
  objects::MemoryWindow* window = core_.memory.find_window_of_any_variant(bind.window_key);
  objects::MemoryRegion* region = core_.memory.find_region(bind.region_key);
  if (window == nullptr || window->pd != qp_.pd) return Cause::kWindowBindRefused;
  return core_.memory.bind_window(*window, region, bind.address, bind.length, bind.access, entry.rkey.value,
                                  qp_.qpn);
}

Requester::Start Requester::finish_local(SendEntry& entry) {
  entry.local_done = true;
  entry.first_psn = req_.next;
  ++req_.started;
  ++req_.index;
  Completer(core_, qp_, now_).retire();
  return Start::kExecuted;
}

// docs/adr/0014: only while no earlier request of this QP is in flight, to preserve the order and errors of
// RC. The immediate of a WRITE travels as a packet behind the data; only far memory is worth it.
bool Requester::may_go_direct(const SendEntry& entry, bool far) const {
  return qp_.path.direct && core_.config.direct != nullptr && req_.una == req_.next &&
         qp_.type == QpType::kRc && entry.length != 0 &&
         (entry.opcode == SendOpcode::kWrite || entry.opcode == SendOpcode::kRead ||
          is_atomic(entry.opcode) || (far && entry.opcode == SendOpcode::kWriteImmediate));
}

bool Requester::targets_far(const SendEntry& entry) const {
  const bool one_sided = entry.opcode == SendOpcode::kWrite || entry.opcode == SendOpcode::kRead ||
                         entry.opcode == SendOpcode::kWriteImmediate;
  return one_sided && qp_.path.direct && qp_.type == QpType::kRc && entry.length != 0 && !entry.is_inline() &&
         core_.config.direct->reaches_far(qp_.path, {qp_.qpn, qp_.remote, entry.rkey, entry.remote_address});
}

// Moves the next part of the request. On false, nothing happened that packets cannot repeat; the packets will
// find the error.
bool Requester::move_direct(const SendEntry& entry, std::uint32_t octets) const {
  const bool write = entry.opcode != SendOpcode::kRead;
  std::array<objects::MutableSpan, objects::kSgeMax> local;
  std::array<objects::PayloadSpan, objects::kSgeMax> from;
  std::size_t count = 0;
  bool from_far = false;
  if (entry.is_inline()) {
    from[count++] = {qp_.send_queue.inline_data(req_.index) + req_.direct_octets, octets};
  } else if (!objects::find_spans(core_.memory, *qp_.pd, qp_.send_queue.list(req_.index), req_.direct_octets,
                                  octets, write ? 0u : std::uint32_t{objects::kLocalWrite}, local, count,
                                  from_far)) {
    return false;
  }
  for (std::size_t i = 0; write && !entry.is_inline() && i < count; ++i)
    from[i] = {local[i].data, local[i].length};
  const objects::DirectTarget target{qp_.qpn,    qp_.remote,
                                     entry.rkey, entry.remote_address + req_.direct_octets,
                                     from_far,   req_.direct_goes_on};
  return write ? core_.config.direct->direct_write(qp_.path, target, {from.data(), count})
               : core_.config.direct->direct_read(qp_.path, target, {local.data(), count});
}

Requester::Start Requester::yield() const {
  core_.yielded = true;
  return Start::kYield;
}

// Returns kReady if packets must carry the whole request, or the immediate of data that was placed.
Requester::Start Requester::execute_direct(SendEntry& entry, bool far) {
  const std::uint32_t rest = entry.length - req_.direct_octets;
  const std::uint32_t octets = !far                     ? std::min(rest, core_.direct_left)
                               : core_.direct_left != 0 ? std::min(rest, kFarPieceOctets)
                                                        : 0;
  const bool moved = octets != 0 && move_direct(entry, octets);
  if (octets != 0) req_.direct_goes_on = !moved && core_.config.direct->take_unfinished();
  if (req_.direct_goes_on) return yield();
  if (octets != 0 && !moved) {
    req_.direct_octets = 0;
    return Start::kReady;
  }
  core_.direct_left -= far ? std::min(core_.direct_left, kFarStartOctets + octets / kFarSpeed) : octets;
  req_.direct_octets += octets;
  if (req_.direct_octets != entry.length) return yield();
  req_.direct_octets = 0;
  const bool write = entry.opcode != SendOpcode::kRead;
  auto& counters = *qp_.counters;
  (write ? counters.octets_sent : counters.octets_received) += entry.length;
  (write ? qp_.octets_sent : qp_.octets_received) += entry.length;
  if (entry.opcode == SendOpcode::kWriteImmediate) {
    entry.placed = true;
    return Start::kReady;
  }
  return finish_direct(entry);
}

// An atomic must execute once and cannot be repeated with packets. So check the buffer for the result first.
Requester::Start Requester::execute_direct_atomic(SendEntry& entry) {
  const auto list = qp_.send_queue.list(req_.index);
  std::array<objects::MutableSpan, objects::kSgeMax> answer;
  std::size_t count = 0;
  bool far = false;
  if (!objects::find_spans(core_.memory, *qp_.pd, list, 0, kAtomicOctets, objects::kLocalWrite, answer, count,
                           far) ||
      far)
    return Start::kReady;
  const bool swap = entry.opcode == SendOpcode::kCompareSwap;
  objects::AtomicCall call{.target = nullptr,
                           .swap = swap,
                           .operand = swap ? entry.atomic.swap : entry.atomic.compare_add,
                           .compare = entry.atomic.compare_add,
                           .original = 0};
  const objects::DirectTarget target{qp_.qpn, qp_.remote, entry.rkey, entry.remote_address};
  if (!core_.config.direct->direct_atomic(qp_.path, target, call)) return Start::kReady;
  std::array<std::uint8_t, kAtomicOctets> value;
  store_native(value.data(), call.original);
  const Cause cause = objects::scatter(core_.memory, *qp_.pd, list, 0, value, true, core_.staging,
                                       {.qpn = qp_.qpn, .answers = true});
  if (cause == Cause::kNone) return finish_direct(entry);
  fail_entry(entry, Status::kLocalProtectionError, cause);
  return Start::kWait;
}

Requester::Start Requester::finish_direct(SendEntry& entry) {
  auto& counters = *qp_.counters;
  ++counters.direct_operations;
  counters.direct_octets += entry.length;
  qp_.count(&Counters::messages_sent, &QueuePair::messages_sent);
  return finish_local(entry);
}

void Requester::fail_entry(SendEntry& entry, Status status, Cause cause) {
  Completer(core_, qp_, now_).fail_entry(entry, status, cause);
}

bool Requester::fits_window(std::uint32_t packets) const {
  if (qp_.path.lossless || !qp_.reliable()) return true;
  if (req_.sent.since(req_.una) + static_cast<std::int64_t>(packets) > req_.psns_max) return false;
  return req_.flight_packets == 0 || req_.flight_packets + packets <= window();
}

SendVerdict Requester::check_room(const Place& place, std::uint32_t packets) const {
  if (!qp_.reliable() || qp_.path.lossless || (place.repair && place.psn == req_.una))
    return SendVerdict::kSent;
  if (place.repair ? req_.flight_packets != 0 && req_.flight_packets + packets > window()
                   : !fits_window(packets))
    return SendVerdict::kNothing;
  if (now_ < req_.congestion.allowed_at()) {
    core_.timers.arm(qp_, req_.congestion.allowed_at());
    return SendVerdict::kNothing;
  }
  return core_.over_budget(packets * qp_.mtu) ? SendVerdict::kNoBudget : SendVerdict::kSent;
}

std::uint8_t* Requester::emit_base(Frame& frame, const Place& place, Step step, bool ack_request,
                                   std::uint8_t pad) const {
  const SendEntry& entry = place.entry;
  const bool ends = wire::shape_of(wire::Opcode(qp_.transport(), step)).ends_message;
  std::uint8_t* p = frame.header.data();
  wire::emit_bth_words({.opcode = wire::Opcode(qp_.transport(), step),
                        .solicited = ends && (entry.flags & objects::kSendSolicited) != 0,
                        .pad = pad,
                        .pkey = qp_.pkey,
                        .destination = qp_.remote,
                        .ack_request = ack_request,
                        .psn = place.psn},
                       p);
  p += wire::kBthOctets;
  if (qp_.type == QpType::kXrcSend) {
    wire::emit_xrceth({.srq = entry.xrc_srq}, p);
    p += wire::kXrcEthOctets;
  }
  return p;
}

// Request an ACK before sending stops for lack of room in the window or the budget: only the ACK makes room.
// Also request one with the last retransmitted packet.
bool Requester::want_ack(const Place& place, bool ends_message, std::uint32_t packets) {
  if (!qp_.reliable()) return false;
  if (ends_message) return true;
  const std::uint32_t room = qp_.path.lossless ? kFramesBetweenAckRequests * 4 : window();
  if (req_.since_ack_request + 1 >= std::min(kFramesBetweenAckRequests, std::max(room / 4, 1u))) return true;
  if (qp_.path.lossless) return false;
  if (req_.flight_packets + packets >= room || core_.fills_budget(packets * qp_.mtu)) return true;
  return place.repair ? place.psn == req_.una || req_.log.lost() == 1
                      : req_.sent.since(req_.una) + std::int64_t{1} >= req_.psns_max;
}

Cause Requester::add_payload(const Place& place, std::uint32_t offset, std::uint32_t length,
                             Frame& frame) const {
  if (length == 0) return Cause::kNone;
  if (place.entry.is_inline()) {
    frame.add_span(qp_.send_queue.inline_data(place.index) + offset, length);
    frame.own_payload = true;
    return Cause::kNone;
  }
  const Cause cause = objects::gather(core_.memory, *qp_.pd, qp_.send_queue.list(place.index), offset, length,
                                      frame, core_.staging, {.qpn = qp_.qpn, .number = place.index});
  return cause != Cause::kNone || objects::is_mapped(frame) ? cause : Cause::kLocalMemoryFault;
}

SendVerdict Requester::refuse_payload(SendEntry& entry, Cause cause) {
  if (core_.yields_for_buffer()) return SendVerdict::kNoRoom;
  fail_entry(entry, Status::kLocalProtectionError, cause);
  return SendVerdict::kNothing;
}

SendVerdict Requester::send_data(const Place& place, FrameSink& sink) {
  SendEntry& entry = place.entry;
  const std::uint32_t packet = static_cast<std::uint32_t>(place.psn.since(entry.first_psn));
  const std::uint32_t offset = packet * qp_.mtu;
  const std::uint32_t remaining = entry.placed ? 0 : entry.length - offset;
  std::uint32_t payload = std::min(remaining, qp_.train_octets);
  const std::uint32_t packets = qp_.packets_of(payload);
  if (const SendVerdict room = check_room(place, packets); room != SendVerdict::kSent) return room;
  Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  if (const Cause cause = add_payload(place, offset, payload, *frame); cause != Cause::kNone) {
    sink.cancel(*frame);
    return refuse_payload(entry, cause);
  }
  const bool first = offset == 0;
  const bool last = payload == remaining;
  const Step step = data_step(entry.opcode, first, last);
  const bool ack = want_ack(place, last, packets);
  const std::uint8_t pad = wire::pad_for(payload);
  std::uint8_t* p = emit_base(*frame, place, step, ack, pad);
  const bool write = entry.opcode == SendOpcode::kWrite || entry.opcode == SendOpcode::kWriteImmediate;
  if (write && first) {
    wire::emit_reth({.address = entry.remote_address, .rkey = entry.rkey, .length = entry.length}, p);
    p += wire::kRethOctets;
  }
  if (last && (entry.opcode == SendOpcode::kWriteImmediate || entry.opcode == SendOpcode::kSendImmediate)) {
    wire::emit_immediate({entry.immediate_or_key}, p);
    p += wire::kImmediateOctets;
  } else if (last && entry.opcode == SendOpcode::kSendInvalidate) {
    wire::emit_ieth({entry.immediate_or_key}, p);
    p += wire::kIethOctets;
  }
  frame->header_octets = static_cast<std::uint8_t>(p - frame->header.data());
  frame->pad = pad;
  sent(place, *frame, sink, packets, ack);
  return SendVerdict::kSent;
}

// One READ request may become several READs on the wire, so that no more responses are in flight than the
// window allows (docs/adr/0015). To the responder they are ordinary READs, and it answers a duplicate only
// within the bounds of the original. So the bounds are fixed when the entry starts, and a repeated request
// goes from the missing PSN to the same end.
SendVerdict Requester::send_read(const Place& place, FrameSink& sink) {
  const SendEntry& entry = place.entry;
  const std::uint32_t packet = static_cast<std::uint32_t>(place.psn.since(entry.first_psn));
  const std::uint32_t offset = packet * qp_.mtu;
  std::uint32_t packets =
      std::min(entry.read_packets - packet % entry.read_packets, entry.packet_count - packet);
  if (place.repair) packets = missing_of_read(place, packets);
  if (const SendVerdict room = check_room(place, packets); room != SendVerdict::kSent) return room;
  Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  std::uint8_t* p = emit_base(*frame, place, Step::kReadRequest, true, 0);
  const std::uint32_t length = std::min(entry.length - offset, packets * qp_.mtu);
  wire::emit_reth({.address = entry.remote_address + offset, .rkey = entry.rkey, .length = length}, p);
  frame->header_octets = static_cast<std::uint8_t>(p + wire::kRethOctets - frame->header.data());
  if (!place.repair) ++req_.reads;
  sent(place, *frame, sink, packets, true);
  return SendVerdict::kSent;
}

// Number of lost PSNs from `place` on, at most `packets`, that a READ requests again. If there is no sign
// that the peer knows the request, it must be repeated unchanged.
std::uint32_t Requester::missing_of_read(const Place& place, std::uint32_t packets) const {
  if (!place.psn.before(req_.executed)) return packets;
  std::uint32_t run = 1;
  while (run < packets && req_.log.at(place.psn + run).fate == PacketFate::kLost) ++run;
  return run;
}

// ATOMIC, FLUSH, ATOMIC WRITE: one packet, one PSN.
SendVerdict Requester::send_single(const Place& place, FrameSink& sink) {
  const SendEntry& entry = place.entry;
  if (const SendVerdict room = check_room(place, 1); room != SendVerdict::kSent) return room;
  Frame* frame = sink.reserve(qp_.path);
  if (frame == nullptr) return SendVerdict::kNoRoom;
  frame->clear();
  const wire::Reth reth{.address = entry.remote_address, .rkey = entry.rkey, .length = entry.length};
  std::uint8_t* p = nullptr;
  switch (entry.opcode) {
    case SendOpcode::kFlush:
      p = emit_base(*frame, place, Step::kFlush, true, 0);
      wire::emit_feth(
          {.raw = static_cast<std::uint32_t>(entry.flush.placement | entry.flush.selectivity << 4)}, p);
      p += wire::kFethOctets;
      wire::emit_reth(reth, p);
      p += wire::kRethOctets;
      break;
    case SendOpcode::kAtomicWrite:
      if (const Cause cause = add_payload(place, 0, 8, *frame); cause != Cause::kNone) {
        sink.cancel(*frame);
        return refuse_payload(place.entry, cause);
      }
      p = emit_base(*frame, place, Step::kAtomicWrite, true, 0);
      wire::emit_reth(reth, p);
      p += wire::kRethOctets;
      break;
    default: {
      const bool swap = entry.opcode == SendOpcode::kCompareSwap;
      p = emit_base(*frame, place, swap ? Step::kCompareSwap : Step::kFetchAdd, true, 0);
      wire::emit_atomic_eth({.address = entry.remote_address,
                             .rkey = entry.rkey,
                             .swap_or_add = swap ? entry.atomic.swap : entry.atomic.compare_add,
                             .compare = swap ? entry.atomic.compare_add : 0},
                            p);
      p += wire::kAtomicEthOctets;
    }
  }
  frame->header_octets = static_cast<std::uint8_t>(p - frame->header.data());
  if (!place.repair) ++req_.reads;
  sent(place, *frame, sink, 1, true);
  return SendVerdict::kSent;
}

void Requester::take_ack_along(Frame& frame) {
  ResponderState& resp = qp_.resp;
  frame.ack = {
      .present = true, .psn = resp.answer_psn, .aeth = {.syndrome = resp.answer_syndrome, .msn = resp.msn}};
  resp.answer_due = false;
  ++qp_.counters->acks_sent;
  ++qp_.counters->packets_sent;
}

// Hands over the complete frame and advances.
void Requester::sent(const Place& place, Frame& frame, FrameSink& sink, std::uint32_t packets,
                     bool ack_requested) {
  frame.path = &qp_.path;
  auto& counters = *qp_.counters;
  ++counters.packets_sent;
  qp_.count(&Counters::octets_sent, &QueuePair::octets_sent, frame.payload_octets);
  const bool again = place.psn.before(req_.sent);
  if (again) {
    qp_.count(&Counters::packets_resent, &QueuePair::packets_resent);
  }
  if (ack_may_ride(qp_)) take_ack_along(frame);
  sink.commit(frame);
  if (qp_.reliable()) req_.since_ack_request = ack_requested ? 0 : req_.since_ack_request + 1;
  req_.congestion.on_sent(now_, packets * qp_.mtu);
  if (place.repair) return SelectiveRepeat::sent_again(moment(), place.psn, packets, ack_requested);
  const bool alone = req_.una == req_.tx;
  req_.tx = req_.tx + packets;
  if (req_.sent.before(req_.tx)) req_.sent = req_.tx;
  if (req_.tx == place.entry.first_psn + place.entry.packet_count) {
    ++req_.index;
    if (!again) {
      qp_.count(&Counters::messages_sent, &QueuePair::messages_sent);
    }
  }
  if (!qp_.reliable()) {
    req_.una = req_.tx;
    if (!qp_.unflushed_hook.linked()) core_.unflushed.push_back(qp_);
    return;
  }
  core_.set_flight(qp_, req_.flight_packets + packets);
  req_.recovery->sent(moment(), {.first = place.psn,
                                 .packets = packets,
                                 .response = awaits_response(place.entry.opcode),
                                 .ack_requested = ack_requested,
                                 .again = again,
                                 .alone = alone});
}

}  // namespace rrdma::transport
