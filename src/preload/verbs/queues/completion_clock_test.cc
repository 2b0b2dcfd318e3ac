#include "preload/verbs/queues/completion_clock.h"

#include <gtest/gtest.h>

namespace rrdma::verbs::completion_clock_test {

constexpr std::int64_t kOffset = 1'700'000'000'000'000'000;

TEST(CompletionClock, OrdersWhatSeveralLanesReport) {
  CompletionClock clock;
  EXPECT_EQ(clock.order(100), 100);
  EXPECT_EQ(clock.order(98), 100);
  EXPECT_EQ(clock.order(101), 101);
}

TEST(CompletionClock, AnOffsetThatJittersDoesNotTurnTheWallTimeBack) {
  CompletionClock clock;
  const std::int64_t first = clock.wall_ns(clock.order(100), kOffset);
  EXPECT_EQ(first, kOffset + 100);
  EXPECT_GE(clock.wall_ns(clock.order(101), kOffset - 2), first);
  EXPECT_EQ(clock.wall_ns(clock.order(200), kOffset), kOffset + 200);
}

TEST(CompletionClock, AskedTwiceForOneCompletionItAnswersTheSame) {
  CompletionClock clock;
  const std::int64_t first = clock.wall_ns(clock.order(100), kOffset);
  EXPECT_EQ(clock.wall_ns(100, kOffset + 5), first);
}

TEST(CompletionClock, AWallClockThatIsSetBackIsCaughtUpWith) {
  CompletionClock clock;
  std::int64_t last = clock.wall_ns(clock.order(1000), kOffset);
  constexpr std::int64_t kBack = 100;
  for (std::int64_t now = 1010; now <= 1200; now += 10) {
    const std::int64_t wall = clock.wall_ns(clock.order(now), kOffset - kBack);
    EXPECT_GT(wall, last);
    last = wall;
  }
  EXPECT_EQ(clock.wall_ns(clock.order(1300), kOffset - kBack), kOffset - kBack + 1300);
}

}  // namespace rrdma::verbs::completion_clock_test
