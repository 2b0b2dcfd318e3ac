#include "objects/completion_queue.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace rrdma::objects {

std::string_view describe(Status status) {
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kLocalLengthError: return "local length error";
    case Status::kLocalQpOperationError: return "local QP operation error";
    case Status::kLocalEecOperationError: return "local EE context operation error";
    case Status::kLocalProtectionError: return "local protection error";
    case Status::kFlushed: return "flushed";
    case Status::kWindowBindError: return "memory window bind error";
    case Status::kBadResponse: return "bad response";
    case Status::kLocalAccessError: return "local access error";
    case Status::kRemoteInvalidRequest: return "remote invalid request";
    case Status::kRemoteAccessError: return "remote access error";
    case Status::kRemoteOperationError: return "remote operation error";
    case Status::kRetryExceeded: return "transport retry counter exceeded";
    case Status::kRnrRetryExceeded: return "RNR retry counter exceeded";
    case Status::kLocalRddViolation: return "local RDD violation";
    case Status::kRemoteInvalidRdRequest: return "remote invalid RD request";
    case Status::kRemoteAborted: return "remote aborted";
    case Status::kInvalidEecn: return "invalid EE context number";
    case Status::kInvalidEecState: return "invalid EE context state";
    case Status::kFatal: return "fatal error";
    case Status::kResponseTimeout: return "response timeout";
    case Status::kGeneralError: return "general error";
  }
  return "unknown status";
}

CompletionQueue::CompletionQueue(std::uint32_t entries, CompletionListener* listener, bool raises_events)
    : capacity_(entries),
      mask_(std::bit_ceil(entries) - 1),
      ring_(new Completion[mask_ + 1]),
      listener_(listener),
      raises_events_(raises_events && listener != nullptr) {
  RRDMA_ASSERT(entries >= 1 && entries <= kEntriesMax);
}

void HeldEvents::release() {
  holding_ = false;
  for (std::size_t i = 0; i < count_; ++i) queues_[i]->raise_event();
  count_ = 0;
}

void CompletionQueue::add(const Completion& completion, HeldEvents* held) {
  if (overflowed()) return;
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) >= capacity_) {
    overflowed_.store(true, std::memory_order_relaxed);
    if (listener_ != nullptr) listener_->on_overflow(*this);
    return;
  }
  ring_[tail & mask_] = completion;
  if (!raises_events_) {  // no waiter: the seq_cst pair below costs more than all of the above
    tail_.store(tail + 1, std::memory_order_release);
    return;
  }
  // seq_cst: the producer stores tail_ and then loads armed_; the consumer stores armed_ and, after the fence
  // in arm(), loads tail_. At least one of them sees the other's store, so no event is missed.
  tail_.store(tail + 1, std::memory_order_seq_cst);
  std::uint8_t armed = armed_.load(std::memory_order_seq_cst);
  const bool counts_always = completion.solicited || completion.status != Status::kSuccess;
  while (armed == kArmed || (armed == kArmedSolicited && counts_always)) {
    // Fails if the arm is strengthened concurrently; the event is due either way.
    if (!armed_.compare_exchange_weak(armed, kIdle, std::memory_order_seq_cst)) continue;
    if (held == nullptr || !held->add(*this)) raise_event();
    return;
  }
}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::uint64_t available = tail_.load(std::memory_order_acquire) - head;
  const std::size_t n = std::min<std::size_t>(available, out.size());
  for (std::size_t i = 0; i < n; ++i) out[i] = ring_[(head + i) & mask_];
  if (n != 0) head_.store(head + n, std::memory_order_release);
  return n;
}

const Completion* CompletionQueue::peek() const {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  return tail_.load(std::memory_order_acquire) == head ? nullptr : &ring_[head & mask_];
}

void CompletionQueue::pop() {
  head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void CompletionQueue::arm(bool solicited_only) {
  std::uint8_t expected = kIdle;
  if (!solicited_only) {
    armed_.store(kArmed, std::memory_order_seq_cst);
  } else {
    // Arming for solicited completions never weakens an arm for all.
    armed_.compare_exchange_strong(expected, kArmedSolicited, std::memory_order_seq_cst);
  }
  // The fence spares is_empty(), which is called very often, an ordering of its own.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool CompletionQueue::resize(std::uint32_t entries) {
  RRDMA_ASSERT(entries >= 1 && entries <= kEntriesMax);
  const std::size_t queued = size();
  if (queued > entries) return false;
  const std::uint32_t mask = std::bit_ceil(entries) - 1;
  std::unique_ptr<Completion[]> ring(new Completion[mask + 1]);
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < queued; ++i) ring[i] = ring_[(head + i) & mask_];
  ring_ = std::move(ring);
  mask_ = mask;
  capacity_ = entries;
  head_.store(0, std::memory_order_relaxed);
  tail_.store(queued, std::memory_order_release);
  return true;
}

void CompletionQueue::purge(wire::Qpn qpn) {
  const Excluded others(producers_);
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  std::uint64_t kept = head;
  for (std::uint64_t i = head; i != tail; ++i) {
    if (ring_[i & mask_].qpn == qpn) continue;
    ring_[kept & mask_] = ring_[i & mask_];
    ++kept;
  }
  tail_.store(kept, std::memory_order_release);
}

}  // namespace rrdma::objects
