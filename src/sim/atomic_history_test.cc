#include "sim/atomic_history.h"

#include <gtest/gtest.h>

namespace rrdma::sim::atomic_history_test {

AtomicCall add(std::uint64_t operand, std::uint64_t original, std::int64_t from, std::int64_t to) {
  return {.compare_add = operand, .posted = {from}, .completed = {to}, .original = original, .certain = true};
}
AtomicCall swap(std::uint64_t compare, std::uint64_t value, std::uint64_t original, std::int64_t from,
                std::int64_t to) {
  return {.swap = true,
          .compare_add = compare,
          .swap_value = value,
          .posted = {from},
          .completed = {to},
          .original = original,
          .certain = true};
}

TEST(AtomicHistory, AcceptsAnOrderThatExists) {
  AtomicHistory history(100);
  history.add(add(7, 110, 0, 50));
  history.add(add(10, 100, 0, 50));
  history.add(swap(117, 500, 117, 10, 60));
  history.add(swap(1, 2, 500, 20, 90));
  EXPECT_EQ(history.check(500), "");
}

TEST(AtomicHistory, FindsALostAndADoubleExecution) {
  AtomicHistory lost(100);
  lost.add(add(10, 100, 0, 50));
  EXPECT_NE(lost.check(100), "");
  AtomicHistory twice(100);
  twice.add(add(10, 100, 0, 50));
  EXPECT_NE(twice.check(120), "");
  AtomicHistory same(100);
  same.add(add(10, 100, 0, 50));
  same.add(add(11, 100, 0, 50));
  EXPECT_NE(same.check(110), "");
}

TEST(AtomicHistory, FindsAStepBackInTime) {
  AtomicHistory history(100);
  history.add(add(10, 110, 0, 5));    // second in the chain, but ended
  history.add(add(10, 100, 20, 30));  // before the first one began
  EXPECT_NE(history.check(120), "");
}

TEST(AtomicHistory, UncertainCallsMayHaveHappenedOrNot) {
  for (const std::uint64_t end : {105u, 1105u}) {
    AtomicHistory history(100);
    history.add({.compare_add = 1000, .posted = {0}});
    history.add(add(5, end - 5, 0, 10));
    EXPECT_EQ(history.check(end), "") << end;
    EXPECT_NE(history.check(end + 1), "");
  }
  AtomicHistory behind(100);
  behind.add(add(5, 100, 0, 10));
  behind.add({.compare_add = 1000, .posted = {0}});
  EXPECT_EQ(behind.check(105), "");
  EXPECT_EQ(behind.check(1105), "");
  EXPECT_NE(behind.check(2105), "");
}

}  // namespace rrdma::sim::atomic_history_test
