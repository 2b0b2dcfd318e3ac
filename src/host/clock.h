// The system's monotonic clock as an Instant. Code below this file never reads a clock.
#pragma once

#include <time.h>

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

// Add this offset to an Instant to get the time since 1970.
inline std::int64_t wall_offset_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec - now().ns;
}

// The same for frequent callers, several times cheaper. For up to kSpan after a clock read, it extrapolates
// from the processor's counter. It learns the length of a tick from the clock. Never goes backwards. One
// thread at a time.
class TickClock {
 public:
  Instant now() {
    const std::uint64_t passed = read_ticks() - anchor_ticks_;
    // Also if the counter went backwards: another core's counter may differ.
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
    return __builtin_ia32_rdtsc();  // __rdtsc() needs <x86intrin.h>, which takes half a second to compile
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
  // If the thread was preempted between the two readings of the counter, the time of the clock reading is
  // unknown. Two spans must agree: the counter may have advanced while the clock stood still (a suspended
  // machine), or changed its rate.
  void learn(Instant read, std::uint64_t before, std::uint64_t after) {
    const std::uint64_t took = after - before;
    fastest_ = std::min(fastest_, took);
    // A coarse counter may not advance between the two readings; a missing one always reads 0.
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

  Instant anchor_;  // the last clock reading; anchor_ticks_ was read with it
  std::uint64_t anchor_ticks_ = 0;
  std::uint64_t tick_ns_ = 0;  // fixed point, kFraction fractional bits
  double ticks_per_ns_ = 0;
  std::uint64_t span_ticks_ = 0;  // 0: the length of a tick is not yet known
  std::uint64_t fastest_ = UINT64_MAX;
  Instant last_;
};

}  // namespace rrdma::host
