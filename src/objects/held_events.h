// HeldEvents: completion events that are due but not raised yet. An engine holds them while it receives
// packets. So the ACK of a message is sent before the event wakes the program, which may end at once.
// Completions are not held: a polling program sees them.
//
// Threads: as the engine.
#pragma once

#include <array>
#include <cstddef>

namespace rrdma::objects {

class CompletionQueue;

class HeldEvents {
 public:
  // False: events are not held now, or there is no room. The caller raises the event.
  [[nodiscard]] bool add(CompletionQueue& queue) {
    if (!holding_ || count_ == kQueuesMax) return false;
    queues_[count_++] = &queue;
    return true;
  }
  void hold() { holding_ = true; }
  [[nodiscard]] bool any() const { return count_ != 0; }
  // Raises the held events. REQUIRES: the queues still exist.
  void release();

 private:
  static constexpr std::size_t kQueuesMax = 256;  // more than packets of one burst
  std::array<CompletionQueue*, kQueuesMax> queues_;
  std::size_t count_ = 0;
  bool holding_ = false;
};

}  // namespace rrdma::objects
