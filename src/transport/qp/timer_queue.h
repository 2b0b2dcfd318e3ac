// TimerQueue<T>: a binary heap of elements by deadline. An element stores its own position
// (T::timer_position) and has at most one deadline here. Postponing a deadline does not touch the heap: the
// handler re-arms when the old deadline fires. This keeps the heap off the hot path.
#pragma once

#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "base/instant.h"

namespace rrdma::transport {

inline constexpr std::uint32_t kNoTimer = 0xffffffff;

template <typename T>
class TimerQueue {
 public:
  [[nodiscard]] Instant earliest() const { return heap_.empty() ? kNever : heap_[0].deadline; }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  // Reserves room for all elements, so that arming never allocates.
  void reserve(std::size_t elements) { heap_.reserve(elements); }

  // Ensures that the element fires at `deadline` or earlier.
  void arm(T& element, Instant deadline) {
    if (element.timer_position == kNoTimer) {
      element.timer_position = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({deadline, &element});
      sift_up(element.timer_position);
    } else if (deadline < heap_[element.timer_position].deadline) {
      heap_[element.timer_position].deadline = deadline;
      sift_up(element.timer_position);
    }
  }

  // Returns the earliest deadline after moving postponed elements to their places: arm() leaves them where
  // they were. `due(element, deadline)` returns when the element that is armed for `deadline` has work to do.
  template <typename Due>
  Instant settle(Due due) {
    while (!heap_.empty()) {
      Node& first = heap_[0];
      const Instant later = due(*first.element, first.deadline);
      if (later <= first.deadline) return first.deadline;
      if (later == kNever) {
        cancel(*first.element);
        continue;
      }
      first.deadline = later;
      sift_down(0);
    }
    return kNever;
  }

  void cancel(T& element) {
    if (element.timer_position == kNoTimer) return;
    const std::uint32_t hole = element.timer_position;
    element.timer_position = kNoTimer;
    const Node last = heap_.back();
    heap_.pop_back();
    if (last.element == &element) return;
    heap_[hole] = last;
    last.element->timer_position = hole;
    sift_up(hole);
    sift_down(last.element->timer_position);
  }

  // Removes and returns an element whose deadline has passed; null if there is none.
  T* pop_due(Instant now) {
    if (heap_.empty() || now < heap_[0].deadline) return nullptr;
    T* element = heap_[0].element;
    cancel(*element);
    return element;
  }

 private:
  struct Node {
    Instant deadline;
    T* element;
  };
  void put(std::uint32_t at, const Node& node) {
    heap_[at] = node;
    node.element->timer_position = at;
  }
  void sift_up(std::uint32_t at) {
    const Node node = heap_[at];
    while (at != 0 && node.deadline < heap_[(at - 1) / 2].deadline) {
      put(at, heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    put(at, node);
  }
  void sift_down(std::uint32_t at) {
    const Node node = heap_[at];
    for (;;) {
      std::uint32_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].deadline < heap_[child].deadline) ++child;
      if (!(heap_[child].deadline < node.deadline)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, node);
  }
  std::vector<Node> heap_;
};

}  // namespace rrdma::transport
