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

std::uint32_t QueuePair::consumer_after(bool receive) const {
  if (!receive) return first_ + not_posted_ + static_cast<std::uint32_t>(engine_qp->send_queue.head());
  return shared != nullptr ? shared->receives.consumer_after() : receives.consumer_after();
}

void QueuePair::note_completion(bool receive) {
  if (!receive) {
    sends.set_consumer(consumer_after(false));
  } else if (shared != nullptr) {
    shared->receives.complete();
  } else {
    receives.complete();
  }
}

const DatagramRoute* QueuePair::unknown_route() const { return waits_ ? &waiting_route_ : nullptr; }

void QueuePair::learn(const DatagramRoute& route, objects::AddressHandle& address) {
  if (addresses.size() >= kRoutesMax) {
    addresses.begin()->second->destroy();
    addresses.erase(addresses.begin());
  }
  addresses[route] = &address;
}

// Copies the next request once: the program may write to its slot at any time. False if there is none, or its
// route is unknown.
bool QueuePair::load_next() {
  if (!waits_) {
    if (sends.masked(taken_) == sends.producer()) return false;
    sends.load(taken_, slot_);
    if (!datagram) return true;
    RxeSend send;
    std::memcpy(&send, slot_.data(), sizeof send);
    waiting_route_ = route_of(send.datagram.address);
  }
  waits_ = datagram && !addresses.contains(waiting_route_);
  return !waits_;
}

void QueuePair::take_sends(transport::Engine& engine, Regions& regions, Instant now) {
  using transport::QpState;
  const QpState state = engine_qp->state;
  // As rxe: requests wait in the ring until the QP can send.
  if (state == QpState::kReset || state == QpState::kInit || state == QpState::kReadyToReceive) return;
  for (std::uint32_t most = sends.slots(); most > 0 && load_next(); --most) {
    ++taken_;
    if (post(engine, regions, now) == Outcome::kPosted) continue;
    std::uint64_t wr_id;
    std::memcpy(&wr_id, slot_.data(), sizeof wr_id);
    fail(engine, wr_id, now);
  }
}

QueuePair::Outcome QueuePair::post(transport::Engine& engine, Regions& regions, Instant now) {
  RxeSend send;
  std::memcpy(&send, slot_.data(), sizeof send);
  if (send.opcode == kRegisterOpcode && limits.grant_key != 0)
    return register_fast(engine, regions, send, now);
  ParsedSend parsed;
  if (!parse_send(slot_, datagram, limits, parsed)) return Outcome::kRefused;
  if (datagram) {
    const bool sends_datagram = parsed.request.entry.opcode == objects::SendOpcode::kSend ||
                                parsed.request.entry.opcode == objects::SendOpcode::kSendImmediate;
    if (!sends_datagram) return Outcome::kRefused;
    parsed.request.entry.datagram.handle = addresses.at(waiting_route_);
  }
  return engine.post_send(*engine_qp, parsed.request, now) == transport::PostError::kNone ? Outcome::kPosted
                                                                                          : Outcome::kRefused;
}

// In its order: an invalidation of the region's last key may be before it.
QueuePair::Outcome QueuePair::register_fast(transport::Engine& engine, const Regions& regions,
                                            const RxeSend& send, Instant now) {
  transport::SendRequest request{};
  request.entry.wr_id = send.wr_id;
  request.entry.flags = static_cast<std::uint8_t>(send.send_flags & objects::kSendSignaled);
  if (!regions.fill_renewal(send, request.entry)) return Outcome::kRefused;
  return engine.post_send(*engine_qp, request, now) == transport::PostError::kNone ? Outcome::kPosted
                                                                                   : Outcome::kRefused;
}

// The earlier requests complete first: the kernel knows them by their order.
void QueuePair::fail(transport::Engine& engine, std::uint64_t wr_id, Instant now) {
  transport::QpAttributes to;
  to.state = transport::QpState::kError;
  (void)engine.modify_qp(*engine_qp, to, transport::kAttrState, now);
  ++not_posted_;
  send_cq->queue().push(
      {.wr_id = wr_id, .status = objects::Status::kLocalQpOperationError, .qpn = engine_qp->qpn});
}

void QueuePair::reset() {
  first_ = taken_ = sends.producer();
  waits_ = false;
  not_posted_ = 0 - static_cast<std::uint32_t>(engine_qp->send_queue.head());
  sends.set_consumer(taken_);
  if (shared == nullptr) receives.drop();
}

void QueuePair::flush_receives(transport::Engine& engine, Instant now) {
  if (shared != nullptr || engine_qp->state != transport::QpState::kError) return;
  ParsedReceive parsed;
  for (std::uint32_t most = receives.slots(); most > 0 && receives.take(parsed); --most) {
    (void)engine.post_receive(*engine_qp, parsed.wr_id, std::span(parsed.list).first(parsed.count), now);
  }
}

}  // namespace rrdma::kernel
