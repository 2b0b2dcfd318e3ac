// LanesOfQueue: the lanes whose QPs report to a completion queue; nearly always one. Polling the queue makes
// progress on these lanes only.
//
// Threads: reads from any; it grows under the locks of all lanes and never shrinks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "control/slot.h"
#include "nic/lane/lane.h"
#include "nic/wakeup/lent_mutex.h"
#include "objects/completion_queue.h"

namespace rrdma::nic {

inline constexpr std::size_t kLanesMax = control::kSlotsOfProgramMax;

class LanesOfQueue {
 public:
  explicit LanesOfQueue(objects::CompletionQueue& queue) : queue_(queue) {}

  // Null: no QP reports here yet.
  [[nodiscard]] Lane* first() const { return size() != 0 ? lanes_[0] : nullptr; }
  [[nodiscard]] bool contains(const Lane& lane) const {
    for (std::size_t i = size(); i > 0; --i) {
      if (lanes_[i - 1] == &lane) return true;
    }
    return false;
  }
  [[nodiscard]] bool is_armed() const { return queue_.is_armed(); }
  // REQUIRES: the locks of all lanes; !contains(lane).
  void add(Lane& lane) {
    const std::size_t count = size();
    if (count == 1) queue_.expect_producers(producers_);
    lanes_[count] = &lane;
    count_.store(count + 1, std::memory_order_release);
  }

  // Makes one round of progress on lanes where no other thread does. REQUIRES: no lane's lock.
  void poll() {
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) lanes_[i]->poll();
  }
  // For a thread that is about to sleep until an event of the queue.
  void rely_on_threads() {
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) lanes_[i]->rely_on_thread();
  }

 private:
  [[nodiscard]] std::size_t size() const { return count_.load(std::memory_order_acquire); }

  objects::CompletionQueue& queue_;
  LentMutex producers_;
  std::atomic<std::size_t> count_{0};
  std::array<Lane*, kLanesMax> lanes_{};
};

}  // namespace rrdma::nic
