#include "transport/qp/timer_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace rrdma::transport::timer_queue_test {

struct Element {
  std::uint32_t timer_position = kNoTimer;
  Instant due = kNever;
};

Instant settle(TimerQueue<Element>& queue) {
  return queue.settle([](const Element& element, Instant) { return element.due; });
}

TEST(TimerQueue, KeepsWhatWasPutOffUntilItSettles) {
  TimerQueue<Element> queue;
  std::vector<Element> elements(64);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i].due = Instant{static_cast<std::int64_t>(100 + i * 37 % 64)};
    queue.arm(elements[i], elements[i].due);
  }
  EXPECT_EQ(queue.earliest(), Instant{100});
  // All but one are postponed, and one has nothing left to do.
  for (Element& element : elements) element.due = element.due + Duration{1000};
  elements[5].due = Instant{500};
  elements[6].due = kNever;
  for (Element& element : elements) {
    if (element.due != kNever) queue.arm(element, element.due);
  }
  EXPECT_EQ(queue.earliest(), Instant{100});
  EXPECT_EQ(settle(queue), Instant{500});
  EXPECT_EQ(queue.earliest(), Instant{500});
  EXPECT_EQ(queue.pop_due(Instant{499}), nullptr);
  EXPECT_EQ(queue.pop_due(Instant{500}), &elements[5]);
  elements[5].due = kNever;
  Instant last{};
  for (std::size_t left = elements.size() - 2; left != 0; --left) {
    const Instant next = settle(queue);
    ASSERT_GE(next, last);
    last = next;
    Element* const element = queue.pop_due(next);
    ASSERT_NE(element, nullptr);
    EXPECT_EQ(element->due, next);
    element->due = kNever;
  }
  EXPECT_EQ(settle(queue), kNever);
}

}  // namespace rrdma::transport::timer_queue_test
