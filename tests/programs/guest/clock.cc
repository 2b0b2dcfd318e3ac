// Clocks that jump: the date is set, or a machine is stopped for an hour and continues. The program's
// clock_gettime overrides the C library's for RRDMA and for everything else in the process.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

namespace {

constexpr long kHour = 3600;
constexpr long kYear = 365 * 24 * kHour;

// The number of seconds by which each clock is ahead of the kernel's.
std::atomic<long> wall_ahead{0};
std::atomic<long> monotonic_ahead{0};

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += wall_ahead;
  if (result == 0 && clock == CLOCK_MONOTONIC) time->tv_sec += monotonic_ahead;
  return result;
}

namespace guest {
namespace {

// While messages flow, the date jumps back and forth by years.
void the_date_is_set() {
  std::atomic<bool> done{false};
  std::thread clock_setter([&] {
    for (long turn = 0; !done; ++turn) {
      wall_ahead = (turn % 3 - 1) * 10 * kYear;
      ::usleep(200);
    }
  });
  for (const bool events : {false, true}) {
    Talk talk(events);
    talk.exchange(500);
  }
  done = true;
  clock_setter.join();
  wall_ahead = 0;
}

// As after a stop of the machine: pending timers expire at once, and established connections survive.
void an_hour_is_missing() {
  for (const bool events : {false, true}) {
    Talk talk(events);
    for (int i = 0; i < 20; ++i) {
      talk.exchange(5);
      monotonic_ahead += kHour;
    }
  }
}

constexpr Case kCases[] = {{"the_date_is_set", the_date_is_set}, {"an_hour_is_missing", an_hour_is_missing}};

}  // namespace

std::span<const Case> clock_cases() { return kCases; }

}  // namespace guest
