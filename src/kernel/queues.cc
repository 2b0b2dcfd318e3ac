#include "kernel/queues.h"

#include <algorithm>

#include "kernel/queue_pair.h"

namespace rrdma::kernel {
namespace {

// enum ib_event_type of the kernel.
constexpr std::uint32_t kEventCqError = 0;
constexpr std::uint32_t kEventLimitReached = 15;
// The completions of a burst wait in the engine's queue.
constexpr std::uint32_t kEntriesMin = 1024;

}  // namespace

Completions::Completions(const Channel& channel, const rrdma_queue_form& form, FindQp qp_of)
    : channel_(channel),
      handle_(form.handle),
      qp_of_(std::move(qp_of)),
      ring_(channel, form.ring),
      queue_(std::max(form.ring.slots, kEntriesMin), this) {
  if (ring_) producer_ = ring_.producer();
  queue_.arm(false);
}

void Completions::on_completion(objects::CompletionQueue&) { drain(); }

void Completions::on_overflow(objects::CompletionQueue&) { channel_.raise(handle_, kEventCqError); }

void Completions::drain() {
  bool any = false, solicited = false;
  queue_.arm(false);
  for (const objects::Completion* next; (next = queue_.peek()) != nullptr; queue_.pop()) {
    if (lost_) continue;
    any = true;
    solicited = solicited || next->solicited || next->status != objects::Status::kSuccess;
    if (put(*next)) continue;
    lost_ = true;
    channel_.raise(handle_, kEventCqError);
  }
  if (!any) return;
  const std::uint32_t armed = ring_.armed();
  if (armed == RRDMA_ARMED_ANY || (armed == RRDMA_ARMED_SOLICITED && solicited)) channel_.notify(handle_);
}

int Completions::resize(const rrdma_resize& form) {
  SharedRing next(channel_, form.ring);
  if (!next) return -ENOMEM;
  const std::uint32_t count = ring_.masked(producer_ - ring_.consumer());
  if (count > form.entries) return -EINVAL;
  for (std::uint32_t i = 0; i < count; ++i) {
    RxeCompletion completion;
    ring_.load(producer_ - count + i, {reinterpret_cast<std::uint8_t*>(&completion), sizeof completion});
    next.store(i, completion);
  }
  next.set_producer(producer_ = count);
  ring_ = std::move(next);
  return 0;
}

bool Completions::put(const objects::Completion& completion) {
  QueuePair* const qp = qp_of_(completion.qpn);
  const bool receive = (static_cast<unsigned>(completion.opcode) & 128u) != 0;
  if (ring_.masked(producer_ + 1) == ring_.consumer()) {
    if (qp != nullptr) qp->note_completion(receive);
    return false;
  }
  RxeCompletion to{};
  to.wr_id = completion.wr_id;
  to.status = static_cast<std::uint32_t>(completion.status);
  to.opcode = static_cast<std::uint32_t>(completion.opcode);
  to.vendor_err = completion.vendor_err;
  to.byte_length = completion.byte_length;
  to.immediate_or_key = completion.immediate_or_key;
  to.qpn = completion.qpn.value;
  to.source_qpn = completion.source_qpn.value;
  to.flags = completion.flags;
  to.port = 1;
  to.qp_handle = qp != nullptr ? qp->handle : 0;
  ring_.store(producer_, to);
  ++producer_;
  if (qp != nullptr)
    ring_.begin_publishing({.queue = qp->handle << 1 | (receive ? 1u : 0u),
                            .producer = producer_,
                            .consumer = qp->consumer_after(receive)});
  // A program that sees the completion finds its slot free.
  if (qp != nullptr) qp->note_completion(receive);
  ring_.set_producer(producer_);
  ring_.end_publishing();
  return true;
}

bool Receives::take(ParsedReceive& to) {
  if (ring_.masked(taken_) == ring_.producer()) return false;
  SlotCopy slot;
  ring_.load(taken_++, slot);
  parse_receive(slot, limits_, to);
  return true;
}

void Receives::refill(objects::ReceiveQueue& queue) {
  ParsedReceive parsed;
  while (queue.size() < queue.capacity() && take(parsed))
    (void)queue.post(parsed.wr_id, std::span(parsed.list).first(parsed.count));
}

SharedReceives::SharedReceives(const Channel& to, const rrdma_queue_form& form, const QueueLimits& limits,
                               objects::ProtectionDomain& pd)
    : channel(to),
      handle(form.handle),
      receives(to, form.ring, limits),
      queue(form.ring.slots, limits.sges, this) {
  queue.pd = &pd;
  queue.set_source(&receives);
}

void SharedReceives::on_limit(objects::ReceiveQueue&) { channel.raise(handle, kEventLimitReached); }

}  // namespace rrdma::kernel
