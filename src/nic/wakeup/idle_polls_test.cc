#include "nic/wakeup/idle_polls.h"

#include <gtest/gtest.h>

#include <array>

namespace rrdma::nic::idle_polls_test {

using Pause = IdlePolls::Pause;

class IdlePollsTest : public testing::Test {
 protected:
  // Polls in vain and counts the pauses of each kind.
  void poll(int times, Duration each) {
    for (int i = 0; i < times; ++i) {
      now_ = now_ + each;
      if (idle_.note_idle()) ++pauses_[static_cast<std::size_t>(idle_.pause_at(now_))];
    }
  }
  int yields() { return std::exchange(pauses_[static_cast<std::size_t>(Pause::kYield)], 0); }
  int naps() { return std::exchange(pauses_[static_cast<std::size_t>(Pause::kNap)], 0); }

  IdlePolls idle_;
  Instant now_{1'000'000'000};
  std::array<int, 3> pauses_{};
};

TEST_F(IdlePollsTest, NothingHappensWhileTheAnswerIsNear) {
  for (int i = 0; i < 100; ++i) {
    poll(90, nanoseconds(100));
    idle_.note_busy();
  }
  EXPECT_EQ(yields() + naps(), 0);
}

TEST_F(IdlePollsTest, YieldsAfterTenMicrosecondsAndEveryTenAgain) {
  poll(8 + 104, nanoseconds(100));
  EXPECT_EQ(yields(), 1);
  poll(104 * 9, nanoseconds(100));
  EXPECT_EQ(yields(), 9);
  EXPECT_EQ(naps(), 0);
}

TEST_F(IdlePollsTest, NapsWhereItHasPolledForMilliseconds) {
  poll(16'384, nanoseconds(50));
  yields();
  const int before = naps();
  poll(1000, microseconds(2));
  EXPECT_EQ(yields(), 0);
  EXPECT_EQ(naps() - before, 125);
}

// Threads that only yield to one another would let no other thread run.
TEST_F(IdlePollsTest, NapsNowAndThenAmongYieldsThatAnAnswerFollows) {
  for (int i = 0; i < 256; ++i) {
    poll(16, microseconds(2));
    idle_.note_busy();
  }
  EXPECT_EQ(yields(), 255);
  EXPECT_EQ(naps(), 1);
}

// ---- other threads on this core ----

TEST_F(IdlePollsTest, YieldsAtOnceWhereOneThatGivesTheCoreBackIsOnIt) {
  idle_.note_yield(microseconds(3));
  for (int i = 0; i < 100; ++i) {
    poll(1, nanoseconds(100));
    idle_.note_busy();
  }
  EXPECT_EQ(yields(), 100);
}

// A kernel may let the poller continue in spite of one or several yields.
TEST_F(IdlePollsTest, IsPatientAgainAfterManyYieldsInVain) {
  idle_.note_yield(microseconds(3));
  for (int i = 0; i < 15; ++i) idle_.note_yield(nanoseconds(400));
  poll(1, nanoseconds(100));
  EXPECT_EQ(yields(), 1);
  idle_.note_yield(nanoseconds(400));
  poll(90, nanoseconds(100));
  EXPECT_EQ(yields() + naps(), 0);
}

TEST_F(IdlePollsTest, IsPatientAgainBesideOneThatComputes) {
  idle_.note_yield(microseconds(3));
  idle_.note_yield(milliseconds(3));
  poll(90, nanoseconds(100));
  EXPECT_EQ(yields() + naps(), 0);
}

// As long as before by the clock: a yield and an answer take about two microseconds.
TEST_F(IdlePollsTest, NapsNowAndThenAmongYieldsAtOnce) {
  idle_.note_yield(microseconds(3));
  for (int i = 0; i < 1024; ++i) {
    poll(1, microseconds(2));
    idle_.note_busy();
  }
  EXPECT_EQ(yields(), 1023);
  EXPECT_EQ(naps(), 1);
}

}  // namespace rrdma::nic::idle_polls_test
