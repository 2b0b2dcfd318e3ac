// The system's monotonic clock as an Instant: the one place below which nobody asks for the time.
#pragma once

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/instant.h"

namespace rrdma::host {

inline Instant now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
}

// What must be added to an Instant to make it time since 1970.
inline std::int64_t wall_offset_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec - now().ns;
}

// The same for callers who ask all the time, several times cheaper: the processor's counter tells how long it is since the
// clock was read, for up to kSpan; how long a tick is, is learned from the clock. Never goes back. One thread at a time.
class TickClock {
 public:
  Instant now() {
    const std::uint64_t passed = read_ticks() - anchor_ticks_;
    // Also where the counter is behind: another core's, which counts differently.
    if (passed >= span_ticks_) return read_system();
    last_ = std::max(last_, anchor_ + Duration{static_cast<std::int64_t>(passed * tick_ns_ >> kFraction)});
    return last_;
  }

 private:
  static constexpr Duration kSpan = milliseconds(1);
  static constexpr unsigned kFraction = 32;

  static std::uint64_t read_ticks() {
#if defined(__aarch64__)
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#elif defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
  }
  Instant read_system() {
    const std::uint64_t before = read_ticks();
    const Instant read = host::now();
    const std::uint64_t after = read_ticks();
    learn(read, before, after);
    last_ = std::max(last_, read);
    return last_;
  }
  // Who lost the core between the readings cannot tell when the clock was read. And two spans must agree: the counter may
  // have gone on while the clock stood still (a suspended machine), or changed its pace.
  void learn(Instant read, std::uint64_t before, std::uint64_t after) {
    const std::uint64_t took = after - before;
    fastest_ = std::min(fastest_, took);
    // A coarse counter may show no time at all between the two; one that is not there shows 0.
    if (after == 0 || took > fastest_ * 4 + 4 || read - anchor_ < kSpan) return;
    const double ticks =
        static_cast<double>(after - anchor_ticks_) / static_cast<double>((read - anchor_).ns);
    const bool agrees = std::abs(ticks - ticks_per_ns_) < ticks / 8;
    ticks_per_ns_ = ticks;
    span_ticks_ = agrees ? static_cast<std::uint64_t>(ticks * static_cast<double>(kSpan.ns)) : 0;
    tick_ns_ = static_cast<std::uint64_t>(static_cast<double>(std::uint64_t{1} << kFraction) / ticks);
    anchor_ = read;
    anchor_ticks_ = after;
  }

  Instant anchor_;  // when the clock was read, and the counter with it
  std::uint64_t anchor_ticks_ = 0;
  std::uint64_t tick_ns_ = 0;  // with kFraction bits behind the point
  double ticks_per_ns_ = 0;
  std::uint64_t span_ticks_ = 0;  // 0: how long a tick is, is not known yet
  std::uint64_t fastest_ = UINT64_MAX;
  Instant last_;
};

}  // namespace rrdma::host
