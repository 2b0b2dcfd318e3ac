// When the background thread stands by, and when it comes back. The program is a thread that polls, looks, or
// does not; the work is counted. Waits are generous: the machine may be busy.
#include "nic/background.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "host/clock.h"

namespace rrdma::nic {
namespace {

class CountedWork : public BackgroundWork {
 public:
  bool work(Instant& deadline) override {
    ++works;
    deadline = host::now() + microseconds(pause_us);
    return left_lying.exchange(false);
  }
  bool arm() override { return true; }
  void disarm() override {}
  void handle_control() override {}
  void note_arrival(int) override {}
  bool tick() override { return in_a_call; }
  void resume() override {}

  std::atomic<int> works{0};
  std::atomic<int> pause_us{100};  // busy enough to wake for
  std::atomic<bool> in_a_call{false};
  std::atomic<bool> left_lying{false};  // something that the program has not taken
};

bool comes_true(const std::function<bool()>& condition) {
  for (const Instant end = host::now() + seconds(20); host::now() < end; usleep(100)) {
    if (condition()) return true;
  }
  return false;
}

class BackgroundTest : public testing::Test {
 protected:
  BackgroundTest() {
    background_.start(work_);
    program_ = std::thread([this] {
      while (!ended_) {
        if (polls_) background_.note_call();
        if (polls_ && looks_) background_.note_look(host::now());
        if (!polls_) usleep(10);
        for (const Instant until = host::now() + microseconds(call_us_); host::now() < until;) {
        }
      }
    });
  }
  ~BackgroundTest() override {
    ended_ = true;
    program_.join();
    background_.stop();
  }
  bool stands_by() {
    return comes_true([this] { return background_.standing_by(); });
  }
  bool comes_back() {
    return comes_true([this] { return !background_.standing_by(); });
  }

  CountedWork work_;
  Background background_;
  std::atomic<bool> polls_{false}, looks_{true}, ended_{false};
  std::atomic<int> call_us_{0};  // how long a call takes
  std::thread program_;
};

TEST_F(BackgroundTest, ServesAProgramThatDoesNotPoll) {
  ASSERT_TRUE(comes_true([this] { return work_.works > 100; }));
  EXPECT_FALSE(background_.standing_by());
}

TEST_F(BackgroundTest, StandsByWhileTheProgramPollsAndComesBackWhenItStops) {
  if (background_.one_core()) GTEST_SKIP() << "stands by nowhere";
  polls_ = true;
  ASSERT_TRUE(stands_by());
  polls_ = false;
  ASSERT_TRUE(comes_back());
  const int before = work_.works;
  EXPECT_TRUE(comes_true([&] { return work_.works > before + 100; }));
}

// As those do that send 64 KiB: one or two for each wake-up.
TEST_F(BackgroundTest, StandsByBesideCallsThatTakeLong) {
  if (background_.one_core()) GTEST_SKIP() << "stands by nowhere";
  work_.pause_us = 10;
  call_us_ = 40;
  polls_ = true;
  ASSERT_TRUE(stands_by());
}

// What lies there will be taken by the call that is under way.
TEST_F(BackgroundTest, StaysAwayWhileTheProgramIsInACall) {
  if (background_.one_core()) GTEST_SKIP() << "stands by nowhere";
  polls_ = true;
  work_.in_a_call = true;
  ASSERT_TRUE(stands_by());
  looks_ = false;
  work_.left_lying = true;
  usleep(20'000);
  EXPECT_TRUE(work_.left_lying);
  work_.in_a_call = false;
  EXPECT_TRUE(comes_true([this] { return !work_.left_lying; }));
}

TEST_F(BackgroundTest, ComesBackWhenTheProgramGoesToSleep) {
  if (background_.one_core()) GTEST_SKIP() << "stands by nowhere";
  polls_ = true;
  ASSERT_TRUE(stands_by());
  const int before = work_.works;
  background_.kick();
  EXPECT_TRUE(comes_true([&] { return work_.works > before; }));
}

// As a program does that spins on its memory: it polls, but not when something arrives.
TEST_F(BackgroundTest, TriesLessAndLessBesideAProgramThatLeavesThingsLying) {
  if (background_.one_core()) GTEST_SKIP() << "stands by nowhere";
  polls_ = true;
  looks_ = false;
  const auto served_for = [this](Duration span) {
    int stays = 0;
    for (const Instant end = host::now() + span; host::now() < end;) {
      work_.left_lying = true;
      const bool stood_by = background_.standing_by();
      usleep(50);
      stays += stood_by && !background_.standing_by();
    }
    return stays;
  };
  served_for(milliseconds(200));
  EXPECT_LE(served_for(milliseconds(300)), 6) << "the pause has grown to more than 60 ms";
  looks_ = true;
  work_.left_lying = false;
  EXPECT_TRUE(stands_by()) << "once it looks";
}

// A program that asks, kicks and waits. Nothing else wakes the thread: its work has no deadline.
class AskedWork : public BackgroundWork {
 public:
  bool work(Instant& deadline) override {
    served = asked.load();
    deadline = kNever;
    return false;
  }
  bool arm() override { return true; }
  void disarm() override {}
  void handle_control() override {}
  void note_arrival(int) override {}
  bool tick() override { return false; }
  void resume() override {}

  std::atomic<int> asked{0}, served{0};
};

// The second kick comes while the thread takes the first, at one moment or another.
TEST(BackgroundKick, IsNeverLost) {
  AskedWork work;
  Background background;
  background.start(work);
  for (int i = 1; i <= 20'000; ++i) {
    work.asked = 2 * i - 1;
    background.kick();
    for (const Instant until = host::now() + nanoseconds(i * 37 % 20'000); host::now() < until;) {
    }
    work.asked = 2 * i;
    background.kick();
    const Instant end = host::now() + seconds(20);
    while (work.served != 2 * i && host::now() < end) {
    }
    ASSERT_EQ(work.served, 2 * i);
  }
}

TEST(BackgroundStop, ComesBackWhileKicksAreTaken) {
  for (int i = 0; i < 2'000; ++i) {
    AskedWork work;
    Background background;
    background.start(work);
    work.asked = 1;
    background.kick();
    ASSERT_TRUE(comes_true([&] { return work.served == 1; }));
    background.kick();
    for (const Instant until = host::now() + nanoseconds(i * 37 % 20'000); host::now() < until;) {
    }
    background.stop();  // hangs if the thread took the kick and slept
  }
}

}  // namespace
}  // namespace rrdma::nic
