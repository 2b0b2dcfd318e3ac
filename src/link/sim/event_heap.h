// EventHeap: the pending events in virtual time. Events of the same instant come out in the order of
// insertion, so a run depends on its seed alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "base/instant.h"

namespace rrdma::link {

template <typename T>
class EventHeap {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] Instant earliest() const { return heap_.empty() ? kNever : heap_.front().at; }

  void push(Instant at, T event) {
    heap_.push_back({at, next_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  // REQUIRES: !empty().
  T pop() {
    RRDMA_ASSERT(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    T event = std::move(heap_.back().event);
    heap_.pop_back();
    return event;
  }

 private:
  struct Node {
    Instant at;
    std::uint64_t order;
    T event;
  };
  static bool later(const Node& a, const Node& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }

  std::vector<Node> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace rrdma::link
