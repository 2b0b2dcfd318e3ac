// When the background thread stands by, and when it comes back. The program is a thread that polls, looks, or
// does not; the work is counted. Waits are generous: the machine may be busy.
#include "nic/background.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "nic/clock.h"

namespace rrdma::nic {
namespace {

class CountedWork : public BackgroundWork {
 public:
  bool work(Instant& deadline) override {
    ++works;
    deadline = now() + microseconds(100);  // busy enough to wake for
    return left_lying.exchange(false);
  }
  bool arm() override { return true; }
  void disarm() override {}
  void handle_control() override {}
  void note_arrival(int) override {}
  void tick() override {}

  std::atomic<int> works{0};
  std::atomic<bool> left_lying{false};  // something that the program has not taken
};

bool comes_true(const std::function<bool()>& condition) {
  for (const Instant end = now() + seconds(20); now() < end; usleep(100)) {
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
        if (polls_) background_.note_poll();
        if (polls_ && looks_) background_.note_look(now());
        if (!polls_) usleep(10);
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
  std::thread program_;
};

TEST_F(BackgroundTest, ServesAProgramThatDoesNotPoll) {
  ASSERT_TRUE(comes_true([this] { return work_.works > 100; }));
  EXPECT_FALSE(background_.standing_by());
}

TEST_F(BackgroundTest, StandsByWhileTheProgramPollsAndComesBackWhenItStops) {
  polls_ = true;
  ASSERT_TRUE(stands_by());
  polls_ = false;
  ASSERT_TRUE(comes_back());
  const int before = work_.works;
  EXPECT_TRUE(comes_true([&] { return work_.works > before + 100; }));
}

TEST_F(BackgroundTest, ComesBackWhenTheProgramGoesToSleep) {
  polls_ = true;
  ASSERT_TRUE(stands_by());
  const int before = work_.works;
  background_.kick();
  EXPECT_TRUE(comes_true([&] { return work_.works > before; }));
}

// As a program does that spins on its memory: it polls, but not when something arrives.
TEST_F(BackgroundTest, TriesLessAndLessBesideAProgramThatLeavesThingsLying) {
  polls_ = true;
  looks_ = false;
  const auto served_for = [this](Duration span) {
    int stays = 0;
    for (const Instant end = now() + span; now() < end;) {
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

}  // namespace
}  // namespace rrdma::nic
