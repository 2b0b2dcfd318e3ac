#include "objects/work_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rrdma::objects {
namespace {

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

SendQueue::SendQueue(std::uint32_t entries, std::uint32_t sges, std::uint32_t inline_octets)
    : capacity_(entries),
      sge_max_(sges),
      inline_max_(inline_octets),
      mask_(std::bit_ceil(std::max(entries, 1u)) - 1),
      stride_(round_up(kListOffset + std::max<std::size_t>(sges * sizeof(Sge), inline_octets), 64)),
      memory_(new std::uint8_t[(std::size_t{mask_} + 1) * stride_]) {
  RRDMA_ASSERT(entries <= kQueueEntriesMax && sges <= kSgeMax && inline_octets <= kInlineMax);
}

ReceiveQueue::ReceiveQueue(std::uint32_t entries, std::uint32_t sges, LimitListener* listener)
    : capacity_(entries),
      sge_max_(sges),
      mask_(std::bit_ceil(std::max(entries, 1u)) - 1),
      stride_(kListOffset + sges * sizeof(Sge)),
      memory_(new std::uint8_t[(std::size_t{mask_} + 1) * stride_]),
      listener_(listener) {
  RRDMA_ASSERT(entries <= kQueueEntriesMax && sges <= kSgeMax);
}

bool ReceiveQueue::post(std::uint64_t wr_id, std::span<const Sge> list) {
  RRDMA_ASSERT(list.size() <= sge_max_);
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) >= capacity_) return false;
  std::uint8_t* to = slot(tail);
  const ReceiveEntry entry{wr_id, static_cast<std::uint32_t>(list.size())};
  std::memcpy(to, &entry, sizeof entry);
  if (!list.empty()) std::memcpy(to + kListOffset, list.data(), list.size_bytes());
  tail_.store(tail + 1, std::memory_order_release);
  return true;
}

bool ReceiveQueue::take(ReceiveEntry& entry, Sge* list) {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  std::uint64_t queued = tail_.load(std::memory_order_acquire) - head;
  if (queued == 0 && source_ != nullptr) {
    source_->refill(*this);
    queued = tail_.load(std::memory_order_relaxed) - head;
  }
  if (queued == 0) return false;
  const std::uint8_t* from = slot(head);
  std::memcpy(&entry, from, sizeof entry);
  if (entry.sge_count != 0)
    std::memcpy(static_cast<void*>(list), from + kListOffset, entry.sge_count * sizeof(Sge));
  head_.store(head + 1, std::memory_order_release);
  std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  // Compare and exchange, so that a limit armed concurrently stays armed.
  if (limit != 0 && queued - 1 < limit &&
      limit_.compare_exchange_strong(limit, 0, std::memory_order_relaxed)) {
    if (listener_ != nullptr) listener_->on_limit(*this);
  }
  return true;
}

bool ReceiveQueue::resize(std::uint32_t entries) {
  RRDMA_ASSERT(entries <= kQueueEntriesMax);
  const std::size_t queued = size();
  if (queued > entries) return false;
  const std::uint32_t mask = std::bit_ceil(std::max(entries, 1u)) - 1;
  std::unique_ptr<std::uint8_t[]> memory(new std::uint8_t[(std::size_t{mask} + 1) * stride_]);
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < queued; ++i) std::memcpy(memory.get() + i * stride_, slot(head + i), stride_);
  memory_ = std::move(memory);
  mask_ = mask;
  capacity_ = entries;
  head_.store(0, std::memory_order_relaxed);
  tail_.store(queued, std::memory_order_release);
  return true;
}

}  // namespace rrdma::objects
