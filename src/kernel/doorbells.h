// Doorbells: the handles of QPs that have new send requests. The kernel writes them into a ring.
//
// Threads: under the lock of the lane.
#pragma once

#include <optional>

#include "kernel/shared_ring.h"

namespace rrdma::kernel {

class Doorbells {
 public:
  explicit Doorbells(const Channel& channel) : ring_(channel, channel.doorbells()) {}

  [[nodiscard]] bool valid() const { return static_cast<bool>(ring_); }
  [[nodiscard]] bool any() const { return ring_.producer() != ring_.masked(taken_); }
  // The kernel adds this QP again for requests that come from here on. Look at the QP's ring afterwards.
  [[nodiscard]] std::optional<std::uint32_t> take() {
    if (!any()) return std::nullopt;
    std::uint32_t handle = 0;
    ring_.load(taken_, {reinterpret_cast<std::uint8_t*>(&handle), sizeof handle});
    ring_.set_consumer(++taken_);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return handle;
  }

 private:
  SharedRing ring_;
  std::uint32_t taken_ = 0;
};

}  // namespace rrdma::kernel
