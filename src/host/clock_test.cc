// TickClock compared with the system's clock.
#include "host/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rrdma::host::clock_test {

TEST(TickClock, NeverGoesBack) {
  TickClock clock;
  Instant last = clock.now();
  for (int i = 0; i < 1'000'000; ++i) {
    const Instant next = clock.now();
    ASSERT_GE(next, last);
    last = next;
  }
}

// The thread may be preempted between two readings, so only most readings must agree.
TEST(TickClock, AgreesWithTheSystemsClock) {
  TickClock clock;
  std::vector<std::int64_t> error;
  for (const Instant end = now() + milliseconds(20); now() < end;) {
    const Instant before = now();
    const Instant ticks = clock.now();
    const Instant after = now();
    error.push_back(std::max({(before - ticks).ns, (ticks - after).ns, std::int64_t{0}}));
  }
  std::sort(error.begin(), error.end());
  EXPECT_LE(error[error.size() * 9 / 10], 1'000);
}

TEST(TickClock, SurvivesAPause) {
  TickClock clock;
  for (const Instant end = now() + milliseconds(5); now() < end;) (void)clock.now();
  const timespec pause{.tv_sec = 0, .tv_nsec = 30'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_GE(clock.now(), now() - milliseconds(20));
}

}  // namespace rrdma::host::clock_test
