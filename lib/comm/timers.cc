#include "lib/comm/timers.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

void Timers::place(std::size_t index, Timer* timer) {
  heap_[index] = timer;
  timer->place_ = index + 1;
}

void Timers::sift_up(std::size_t index, Timer* timer) {
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (heap_[parent]->at_ <= timer->at_) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, timer);
}

void Timers::sift_down(std::size_t index, Timer* timer) {
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->at_ < heap_[child]->at_) ++child;
    if (timer->at_ <= heap_[child]->at_) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, timer);
}

void Timers::set(Timer* timer, Clock::time_point at) {
  timer->at_ = at;
  heap_.push_back(timer);
  sift_up(heap_.size() - 1, timer);
}

void Timers::cancel(Timer* timer) {
  if (timer->place_ == 0) return;
  const std::size_t index = timer->place_ - 1;
  timer->place_ = 0;
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last == timer) return;
  if (index > 0 && last->at_ < heap_[(index - 1) / 2]->at_) {
    sift_up(index, last);
  } else {
    sift_down(index, last);
  }
}

bool Timers::fire_one(Clock::time_point now) {
  if (heap_.empty() || heap_.front()->at_ > now) return false;
  Timer* first = heap_.front();
  cancel(first);
  first->expire();
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
