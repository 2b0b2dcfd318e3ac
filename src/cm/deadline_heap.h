// DeadlineHeap<T>: a binary heap of elements that know their own position. Setting, moving and cancelling a
// deadline is O(log n); finding the earliest one is O(1). Equal deadlines keep the order in which they were
// set. T has a member `timer` of type TimerSlot. The heap does not own its elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/instant.h"

namespace rrdma::cm {

struct TimerSlot {
  static constexpr std::size_t kUnset = static_cast<std::size_t>(-1);
  Instant deadline = kNever;
  std::uint64_t order = 0;
  std::size_t place = kUnset;
};

template <typename T>
class DeadlineHeap {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] Instant next_deadline() const {
    return heap_.empty() ? kNever : heap_.front()->timer.deadline;
  }
  // REQUIRES: !empty().
  [[nodiscard]] T& front() {
    RRDMA_ASSERT(!heap_.empty());
    return *heap_.front();
  }

  void set(T& element, Instant deadline) {
    element.timer.deadline = deadline;
    element.timer.order = next_order_++;
    if (element.timer.place == TimerSlot::kUnset) {
      element.timer.place = heap_.size();
      heap_.push_back(&element);
    }
    sift(element.timer.place);
  }

  void cancel(T& element) {
    const std::size_t place = element.timer.place;
    if (place == TimerSlot::kUnset) return;
    T* last = heap_.back();
    heap_.pop_back();
    element.timer = TimerSlot{};
    if (last == &element) return;
    put(place, last);
    sift(place);
  }

 private:
  static bool earlier(const T* a, const T* b) {
    return std::pair(a->timer.deadline, a->timer.order) < std::pair(b->timer.deadline, b->timer.order);
  }
  void put(std::size_t place, T* element) {
    heap_[place] = element;
    element->timer.place = place;
  }
  void sift(std::size_t place) {
    T* element = heap_[place];
    while (place > 0 && earlier(element, heap_[(place - 1) / 2])) {
      put(place, heap_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    while (true) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && earlier(heap_[child + 1], heap_[child])) ++child;
      if (!earlier(heap_[child], element)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, element);
  }

  std::vector<T*> heap_;
  std::uint64_t next_order_ = 0;
};

}  // namespace rrdma::cm
