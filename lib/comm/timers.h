// Timers: a binary heap of pointers, earliest first. A timer knows its index, so that it can be cancelled.
// The heap grows with the number of timers and never shrinks.
#pragma once

#include <cstddef>
#include <vector>

#include "rrdma/comm/timer.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class Timers {
 public:
  // REQUIRES: not set.
  void set(Timer* timer, Clock::time_point at);
  void cancel(Timer* timer);
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // REQUIRES: !empty().
  [[nodiscard]] Clock::time_point next() const { return heap_.front()->at_; }
  // Removes and calls the first timer if its time has come.
  bool fire_one(Clock::time_point now);

 private:
  void place(std::size_t index, Timer* timer);
  void sift_up(std::size_t index, Timer* timer);
  void sift_down(std::size_t index, Timer* timer);
  std::vector<Timer*> heap_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
