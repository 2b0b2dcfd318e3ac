#include "nic/wakeup/lane_lock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace rrdma::nic::lane_lock_test {

// Calls in a loop, as a program that posts continuously.
class Caller {
 public:
  explicit Caller(LaneLock& lock)
      : thread_([this, &lock] {
          while (!stop_.load()) {
            const std::lock_guard held(lock);
            held_.fetch_add(1);
          }
        }) {}
  ~Caller() {
    stop_.store(true);
    thread_.join();
  }
  [[nodiscard]] std::uint64_t calls() const { return held_.load(); }

 private:
  std::atomic<std::uint64_t> held_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(LaneLock, IsHeldByOneAtATime) {
  LaneLock lock;
  int inside = 0, most = 0;
  std::uint64_t times = 0;
  const auto take = [&](bool politely) {
    for (int i = 0; i < 2'000; ++i) {
      politely ? lock.lock_politely() : lock.lock();
      most = std::max(most, ++inside);
      ++times;
      --inside;
      lock.unlock();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(take, i % 2 == 0);
  }
  EXPECT_EQ(most, 1);
  EXPECT_EQ(times, 8'000u);
}

TEST(LaneLock, ThePoliteOneComesToItsTurnBesideOneThatCallsAllTheTime) {
  LaneLock lock;
  const Caller caller(lock);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t before = caller.calls();
    while (caller.calls() == before) std::this_thread::yield();  // it does call all the time
    lock.lock_politely();
    lock.unlock();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// It sleeps meanwhile and does not ask to be woken.
TEST(LaneLock, ThePoliteOneWaitsForALongHolder) {
  LaneLock lock;
  lock.lock();
  std::atomic<bool> taken{false};
  std::jthread polite([&] {
    lock.lock_politely();
    taken.store(true);
    lock.unlock();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(taken.load());
  lock.unlock();
  polite.join();
  EXPECT_TRUE(taken.load());
}

// Time from the release of the lock until the polite waiter has it, after a wait that has made its naps long.
std::chrono::nanoseconds delay_of_hurried(LaneLock& lock) {
  using Clock = std::chrono::steady_clock;
  lock.lock();
  Clock::time_point taken;
  std::jthread polite([&] {
    lock.lock_politely();
    taken = Clock::now();
    lock.unlock();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Clock::time_point free = Clock::now();
  lock.unlock();
  lock.hurry();
  polite.join();
  return taken - free;
}

// Without hurry() it is up to 800 us. Other work on the machine delays both, so there are several attempts.
TEST(LaneLock, ThePoliteOneCanBeHurried) {
  LaneLock lock;
  std::chrono::nanoseconds best = std::chrono::seconds(1);
  for (int attempt = 0; attempt < 5 && best > std::chrono::microseconds(150); ++attempt) {
    std::vector<std::chrono::nanoseconds> delays;
    for (int i = 0; i < 41; ++i) delays.push_back(delay_of_hurried(lock));
    std::nth_element(delays.begin(), delays.begin() + 20, delays.end());
    best = std::min(best, delays[20]);
  }
  EXPECT_LE(best, std::chrono::microseconds(150));
}

// A signal handler that ends the program may have interrupted the holder, and would wait for itself.
TEST(LaneLock, TheEndDoesNotWaitForTheCallingThread) {
  LaneLock lock;
  lock.lock();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(lock.lock_at_end(seconds(30)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  lock.unlock();
  EXPECT_TRUE(lock.lock_at_end(Duration{}));
  lock.unlock();
}

TEST(LaneLock, TheEndWaitsForAnotherThread) {
  LaneLock lock;
  std::atomic<bool> held{false};
  std::jthread holder([&] {
    const std::lock_guard guard(lock);
    held.store(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  while (!held.load()) std::this_thread::yield();
  EXPECT_FALSE(lock.lock_at_end(milliseconds(1)));
  EXPECT_TRUE(lock.lock_at_end(seconds(30)));
  lock.unlock();
}

}  // namespace rrdma::nic::lane_lock_test
