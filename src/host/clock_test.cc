// The clock for callers in a hurry against the system's own.
#include "host/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rrdma::host {
namespace {

TEST(RecentClock, NeverGoesBackAndIsNeverAhead) {
  RecentClock clock;
  Instant last = clock.now();
  for (int i = 0; i < 1'000'000; ++i) {
    const Instant recent = clock.now();
    ASSERT_GE(recent, last);
    last = recent;
    if (i % 64 == 0) {
      ASSERT_LE(recent, now());
    }
  }
}

// As it comes, the thread may lose its core between the two readings: most of them tell.
TEST(RecentClock, IsHardlyEverLateByMoreThanAMicrosecond) {
  RecentClock clock;
  std::vector<std::int64_t> late;
  for (int i = 0; i < 10'001; ++i) {
    const Instant before = now();
    late.push_back((before - clock.now()).ns);
  }
  std::sort(late.begin(), late.end());
  EXPECT_LE(late[late.size() * 9 / 10], 1'100);
}

}  // namespace
}  // namespace rrdma::host
