// SharedRing: one queue in memory that the kernel, this process and perhaps a program map. Programs write
// anything at any time: sizes come from the kernel's form alone, indices are masked, and a slot is copied
// before it is looked at.
#pragma once

#include <rrdma_abi.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernel/channel.h"
#include "kernel/rxe_layout.h"

namespace rrdma::kernel {

class SharedRing {
 public:
  SharedRing() = default;
  // Empty if the kernel refuses.
  SharedRing(const Channel& channel, const rrdma_ring_form& form)
      : memory_(form.handle == 0 ? Mapping() : channel.map(RRDMA_RING_PAGE(form.handle), form.octets, true)),
        mask_(form.slots - 1),
        log2_slot_(form.log2_slot) {}

  explicit operator bool() const { return static_cast<bool>(memory_); }
  [[nodiscard]] std::uint32_t slots() const { return mask_ + 1; }
  [[nodiscard]] std::uint32_t slot_octets() const { return 1u << log2_slot_; }
  [[nodiscard]] std::uint32_t masked(std::uint32_t index) const { return index & mask_; }

  [[nodiscard]] std::uint32_t producer() const {
    return __atomic_load_n(&header().producer, __ATOMIC_ACQUIRE) & mask_;
  }
  [[nodiscard]] std::uint32_t consumer() const {
    return __atomic_load_n(&header().consumer, __ATOMIC_ACQUIRE) & mask_;
  }
  void set_producer(std::uint32_t index) {
    __atomic_store_n(&header().producer, index & mask_, __ATOMIC_RELEASE);
  }
  void set_consumer(std::uint32_t index) {
    __atomic_store_n(&header().consumer, index & mask_, __ATOMIC_RELEASE);
  }
  // Around set_consumer() of a request's queue and set_producer() of the CQ. If this process ends in between,
  // the kernel sets both.
  void begin_publishing(const rrdma_published& of) {
    rrdma_published& to = header().published;
    __atomic_store_n(&to.producer, of.producer & mask_, __ATOMIC_RELAXED);
    __atomic_store_n(&to.consumer, of.consumer, __ATOMIC_RELAXED);
    __atomic_store_n(&to.queue, of.queue, __ATOMIC_RELEASE);
  }
  void end_publishing() { __atomic_store_n(&header().published.queue, 0u, __ATOMIC_RELEASE); }
  // Which completions raise an event (RRDMA_ARMED_…). After set_producer(), one of the two sides sees the
  // other.
  [[nodiscard]] std::uint32_t armed() const {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(reinterpret_cast<std::uint32_t*>(memory_.data()) + RRDMA_ARMED_WORD,
                           __ATOMIC_RELAXED);
  }

  // Copies the beginning of a slot.
  void load(std::uint32_t index, std::span<std::uint8_t> to) const {
    std::memcpy(to.data(), slot(index), std::min<std::size_t>(to.size(), slot_octets()));
  }
  void store(std::uint32_t index, const RxeCompletion& completion) {
    std::memcpy(slot(index), &completion, sizeof completion);
  }

 private:
  [[nodiscard]] RxeRingHeader& header() const { return *reinterpret_cast<RxeRingHeader*>(memory_.data()); }
  [[nodiscard]] std::uint8_t* slot(std::uint32_t index) const {
    return memory_.data() + sizeof(RxeRingHeader) + (std::size_t{index & mask_} << log2_slot_);
  }

  Mapping memory_;
  std::uint32_t mask_ = 0;
  std::uint32_t log2_slot_ = 0;
};

}  // namespace rrdma::kernel
