// The thread with its epoll and the real clock: what virtual time cannot show (wakeup_test.cc shows the
// rest). Timeouts are generous, because the machine may be busy.
#include "nic/wakeup/lane_thread.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/own_descriptors.h"
#include "base/raw_syscall.h"
#include "host/clock.h"

namespace rrdma::nic::lane_thread_test {

bool comes_true(const std::function<bool()>& condition) {
  for (const Instant end = host::now() + seconds(20); host::now() < end; usleep(100)) {
    if (condition()) return true;
  }
  return false;
}

void spin(Duration span) {
  for (const Instant until = host::now() + span; host::now() < until;) {
  }
}

// A lane that counts the calls.
struct CountedDuty : Duty {
  Served serve(std::span<const int> arrivals) override {
    for (const int fd : arrivals) {
      std::uint64_t taken;
      if (raw::read(fd, &taken, sizeof taken) > 0) ++arrived;
    }
    ++works;
    served = asked.load();
    const Instant now = host::now();
    return {.received = false, .now = now, .deadline = pause_us < 0 ? kNever : now + microseconds(pause_us)};
  }
  bool look() override { return false; }
  void publish(Instant) override {}
  void handle_control() override { ++controls; }

  std::atomic<int> works{0}, arrived{0}, controls{0}, asked{0}, served{0};
  std::atomic<int> pause_us{-1};
};

class LaneThreadTest : public testing::Test {
 protected:
  LaneLock lock_;
  EpollSleeper sleeper_;
  WakeUp wakeup_{lock_, sleeper_, has_one_core()};
  CountedDuty duty_;
  LaneThread thread_{wakeup_};
};

TEST_F(LaneThreadTest, WakesForDescriptorsAndForTheDeadline) {
  const OwnedFd link(eventfd(0, EFD_NONBLOCK)), control(eventfd(0, EFD_NONBLOCK));
  sleeper_.add_link(link.get());
  sleeper_.add_control(control.get());
  ASSERT_TRUE(thread_.start(duty_));
  ASSERT_TRUE(comes_true([this] { return duty_.works > 0; }));
  const std::uint64_t one = 1;
  ASSERT_EQ(raw::write(link.get(), &one, sizeof one), 8);
  EXPECT_TRUE(comes_true([this] { return duty_.arrived == 1; }));
  const int controls = duty_.controls;
  ASSERT_EQ(raw::write(control.get(), &one, sizeof one), 8);
  EXPECT_TRUE(comes_true([&] { return duty_.controls > controls; }));
  duty_.pause_us = 100;
  wakeup_.kick();
  EXPECT_TRUE(comes_true([this] { return duty_.works > 100; }));
}

// Its content is taken in parts, so that it must be reported again.
TEST_F(LaneThreadTest, AFeedIsReportedUntilItIsEmptyAlsoBesideAProgramThatPolls) {
  const OwnedFd feed(eventfd(0, EFD_NONBLOCK));
  sleeper_.add_feed(feed.get());
  const std::uint64_t one = 1;
  ASSERT_EQ(raw::write(feed.get(), &one, sizeof one), 8);
  for (const auto watch : {Sleeper::Watch::kEverything, Sleeper::Watch::kAllButLinks}) {
    for (int i = 0; i < 2; ++i) {
      const Sleeper::Woken woken = sleeper_.sleep(watch, kNever);
      ASSERT_EQ(woken.links.size(), 1u);
      EXPECT_EQ(woken.links[0], feed.get());
      EXPECT_FALSE(woken.by_control);
    }
  }
  std::uint64_t taken;
  ASSERT_EQ(raw::read(feed.get(), &taken, sizeof taken), 8);
  EXPECT_FALSE(sleeper_.sleep(Sleeper::Watch::kEverything, host::now()).by_event);
}

// True if an epoll set of this process holds it.
bool is_watched(int fd) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("tfd:") && std::stoi(line.substr(4)) == fd) return true;
    }
  }
  return false;
}

TEST_F(LaneThreadTest, SocketsAreWatchedOnlyWhileItSleepsForThem) {
  const OwnedFd socket(eventfd(0, EFD_NONBLOCK));
  const int number = socket.get();
  sleeper_.set_sockets({&number, 1});
  ASSERT_TRUE(sleeper_.valid());
  (void)sleeper_.sleep(Sleeper::Watch::kEverything, host::now());
  EXPECT_TRUE(is_watched(number));
  (void)sleeper_.sleep(Sleeper::Watch::kAllButLinks, host::now());
  EXPECT_FALSE(is_watched(number));
  const std::uint64_t one = 1;
  ASSERT_EQ(raw::write(number, &one, sizeof one), 8);
  EXPECT_FALSE(sleeper_.sleep(Sleeper::Watch::kAllButLinks, host::now()).by_event);
  const Sleeper::Woken woken = sleeper_.sleep(Sleeper::Watch::kEverything, host::now() + seconds(20));
  ASSERT_EQ(woken.links.size(), 1U) << "it came while nobody watched";
  EXPECT_EQ(woken.links[0], number);
  sleeper_.set_sockets({});
  EXPECT_FALSE(is_watched(number));
}

// The limit of watches is reached, or the program has closed them: then the thread looks now and then.
TEST_F(LaneThreadTest, SocketsThatCannotBeWatchedCountAsArrived) {
  const int number = OwnedFd(eventfd(0, EFD_NONBLOCK)).get();
  (void)sleeper_.sleep(Sleeper::Watch::kAllButLinks, host::now());
  sleeper_.set_sockets({&number, 1});
  const Sleeper::Woken woken = sleeper_.sleep(Sleeper::Watch::kEverything, kNever);
  ASSERT_EQ(woken.links.size(), 1U);
  EXPECT_EQ(woken.links[0], number);
}

// The program closed them by direct system calls. Then only the clock is left, and the thread does not spin.
TEST_F(LaneThreadTest, DoesNotSpinWhenItsDescriptorsWereClosed) {
  for (int fd = own_descriptors.next(0); fd < DescriptorSet::kNumbers; fd = own_descriptors.next(fd + 1))
    raw::close(fd);
  const Instant begin = host::now();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(sleeper_.sleep(Sleeper::Watch::kEverything, kNever).by_event);
  EXPECT_GE(host::now() - begin, milliseconds(40));
}

TEST_F(LaneThreadTest, StandsByWhileTheProgramPollsAndComesBackWhenItStops) {
  if (has_one_core()) GTEST_SKIP() << "stands by nowhere";
  duty_.pause_us = 100;  // busy enough to wake for
  ASSERT_TRUE(thread_.start(duty_));
  std::atomic<bool> polls{true}, ended{false};
  std::thread program([&] {
    while (!ended) {
      if (!polls) usleep(10);
      const std::lock_guard lock(lock_);
      if (polls && wakeup_.note_poll(false)) wakeup_.note_look(host::now());
    }
  });
  EXPECT_TRUE(comes_true([this] { return wakeup_.standing_by(); }));
  polls = false;
  EXPECT_TRUE(comes_true([this] { return !wakeup_.standing_by(); }));
  ended = true;
  program.join();
}

// The second kick comes while the thread takes the first, at varying moments. Nothing else wakes it.
TEST_F(LaneThreadTest, NoKickIsLost) {
  ASSERT_TRUE(thread_.start(duty_));
  for (int i = 1; i <= 20'000; ++i) {
    duty_.asked = 2 * i - 1;
    wakeup_.kick();
    spin(nanoseconds(i * 37 % 20'000));
    duty_.asked = 2 * i;
    wakeup_.kick();
    const Instant end = host::now() + seconds(20);
    while (duty_.served != 2 * i && host::now() < end) {
    }
    ASSERT_EQ(duty_.served, 2 * i);
  }
}

TEST(LaneThreadStop, ComesBackWhileKicksAreTaken) {
  for (int i = 0; i < 2'000; ++i) {
    LaneLock lock;
    EpollSleeper sleeper;
    WakeUp wakeup(lock, sleeper, has_one_core());
    CountedDuty duty;
    LaneThread thread(wakeup);
    ASSERT_TRUE(thread.start(duty));
    duty.asked = 1;
    wakeup.kick();
    ASSERT_TRUE(comes_true([&] { return duty.served == 1; }));
    wakeup.kick();
    spin(nanoseconds(i * 37 % 20'000));
    thread.stop();  // hangs if the thread took the kick and slept
  }
}

}  // namespace rrdma::nic::lane_thread_test
