#include "cm/deadline_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/prng.h"

namespace rrdma::cm::deadline_heap_test {

struct Element {
  TimerSlot timer;
};

// The reference is a sorted map.
TEST(DeadlineHeap, AgreesWithASortedMap) {
  Prng prng(1);
  std::vector<Element> elements(200);
  DeadlineHeap<Element> heap;
  std::map<std::pair<Instant, std::uint64_t>, Element*> model;
  std::map<Element*, std::pair<Instant, std::uint64_t>> placed;
  std::uint64_t order = 0;
  for (int round = 0; round < 100'000; ++round) {
    Element& element = elements[prng.below(elements.size())];
    const auto forget = [&](Element& which) {
      if (const auto found = placed.find(&which); found != placed.end()) {
        model.erase(found->second);
        placed.erase(found);
      }
    };
    switch (prng.below(4)) {
      case 0:
      case 1: {
        const Instant deadline{static_cast<std::int64_t>(prng.below(50))};
        heap.set(element, deadline);
        forget(element);
        placed[&element] = {deadline, order};
        model[{deadline, order++}] = &element;
        break;
      }
      case 2:
        heap.cancel(element);
        forget(element);
        break;
      case 3:
        if (heap.empty()) break;
        heap.cancel(heap.front());
        forget(*model.begin()->second);
        break;
    }
    ASSERT_EQ(heap.size(), model.size());
    ASSERT_EQ(heap.next_deadline(), model.empty() ? kNever : model.begin()->first.first);
    if (!model.empty()) {
      ASSERT_EQ(&heap.front(), model.begin()->second);
    }
  }
}

}  // namespace rrdma::cm::deadline_heap_test
