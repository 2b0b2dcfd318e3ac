#include "kernel/queue_pair.h"

#include <cstring>

namespace rrdma::kernel {

QueuePair::QueuePair(const Channel& channel, std::uint32_t of, const rrdma_create_qp& form,
                     std::uint32_t grant_key)
    : handle(of),
      pd(form.pd),
      datagram(form.type == static_cast<std::uint32_t>(transport::QpType::kUd)),
      limits{.sges = form.send_sges, .inline_octets = form.inline_octets, .grant_key = grant_key},
      sends(channel, form.sends),
      receives(channel, form.receives, {.sges = form.receive_sges, .grant_key = grant_key}) {
  if (sends) first_ = taken_ = sends.consumer();
}

QueuePair::~QueuePair() {
  for (const auto& [route, address] : addresses) address->destroy();
}

void QueuePair::note_completion(bool receive) {
  if (!receive) {
    sends.set_consumer(first_ + not_posted_ + static_cast<std::uint32_t>(engine_qp->send_queue.head()));
  } else if (shared != nullptr) {
    shared->receives.complete();
  } else {
    receives.complete();
  }
}

std::optional<DatagramRoute> QueuePair::unknown_route() {
  if (!datagram || sends.masked(taken_) == sends.producer()) return std::nullopt;
  SlotCopy slot;
  sends.load(taken_, slot);
  RxeSend send;
  std::memcpy(&send, slot.data(), sizeof send);
  const DatagramRoute route = route_of(send.datagram.address);
  return addresses.contains(route) ? std::nullopt : std::optional(route);
}

void QueuePair::take_sends(transport::Engine& engine, Regions& regions, Instant now) {
  using transport::QpState;
  const QpState state = engine_qp->state;
  // As rxe: requests wait in the ring until the QP can send.
  if (state == QpState::kReset || state == QpState::kInit || state == QpState::kReadyToReceive) return;
  for (std::uint32_t most = sends.slots(); most > 0 && sends.masked(taken_) != sends.producer(); --most) {
    SlotCopy slot;
    sends.load(taken_, slot);
    if (datagram) {
      RxeSend send;
      std::memcpy(&send, slot.data(), sizeof send);
      if (!addresses.contains(route_of(send.datagram.address))) return;
    }
    ++taken_;
    if (post(engine, regions, slot, now) == Outcome::kPosted) continue;
    std::uint64_t wr_id;
    std::memcpy(&wr_id, slot.data(), sizeof wr_id);
    fail(engine, wr_id, now);
  }
}

QueuePair::Outcome QueuePair::post(transport::Engine& engine, Regions& regions, SlotCopy& slot, Instant now) {
  RxeSend send;
  std::memcpy(&send, slot.data(), sizeof send);
  if (send.opcode == kRegisterOpcode && limits.grant_key != 0) return register_fast(regions, send);
  ParsedSend parsed;
  if (!parse_send(slot, datagram, limits, parsed)) return Outcome::kRefused;
  if (datagram) {
    const bool sends_datagram = parsed.request.entry.opcode == objects::SendOpcode::kSend ||
                                parsed.request.entry.opcode == objects::SendOpcode::kSendImmediate;
    if (!sends_datagram) return Outcome::kRefused;
    parsed.request.entry.datagram.handle = addresses.at(route_of(send.datagram.address));
  }
  return engine.post_send(*engine_qp, parsed.request, now) == transport::PostError::kNone ? Outcome::kPosted
                                                                                          : Outcome::kRefused;
}

// Takes effect at once. The kernel's users post it before the request that names the key, and without a
// completion.
QueuePair::Outcome QueuePair::register_fast(Regions& regions, const RxeSend& send) {
  ++not_posted_;
  const auto& form = send.registration;
  if (!regions.open_fast(form.region, form.key, form.address, form.length, form.access)) {
    --not_posted_;
    return Outcome::kRefused;
  }
  if ((send.send_flags & objects::kSendSignaled) == 0 && !engine_qp->signal_all) return Outcome::kPosted;
  send_cq->queue().push({.wr_id = send.wr_id, .qpn = engine_qp->qpn});
  return Outcome::kPosted;
}

void QueuePair::fail(transport::Engine& engine, std::uint64_t wr_id, Instant now) {
  ++not_posted_;
  send_cq->queue().push(
      {.wr_id = wr_id, .status = objects::Status::kLocalQpOperationError, .qpn = engine_qp->qpn});
  transport::QpAttributes to;
  to.state = transport::QpState::kError;
  (void)engine.modify_qp(*engine_qp, to, transport::kAttrState, now);
}

void QueuePair::reset() {
  first_ = taken_ = sends.producer();
  not_posted_ = 0 - static_cast<std::uint32_t>(engine_qp->send_queue.head());
  sends.set_consumer(taken_);
  if (shared == nullptr) receives.drop();
}

void QueuePair::flush_receives(transport::Engine& engine, Instant now) {
  if (shared != nullptr || engine_qp->state != transport::QpState::kError) return;
  ParsedReceive parsed;
  while (receives.take(parsed)) {
    (void)engine.post_receive(*engine_qp, parsed.wr_id, std::span(parsed.list).first(parsed.count), now);
  }
}

}  // namespace rrdma::kernel
