// The system's monotonic clock as an Instant: the one place below which nobody asks for the time.
#pragma once

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

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

// The same for callers who ask for it all the time: at most a microsecond late, and cheaper. The processor's
// counter tells whether that much has passed since the clock was read. One thread at a time.
class RecentClock {
 public:
  Instant now() {
    const std::uint64_t ticks = read_ticks();
    if (ticks - read_at_ < ticks_max_) return last_;
    last_ = host::now();
    read_at_ = ticks;
    return last_;
  }

 private:
#if defined(__aarch64__)
  static std::uint64_t read_ticks() {
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
  }
  static std::uint64_t ticks_per_microsecond() {
    std::uint64_t frequency;
    asm("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency / 1'000'000;
  }
#elif defined(__x86_64__)
  static std::uint64_t read_ticks() { return __rdtsc(); }
  static std::uint64_t ticks_per_microsecond() {
    return 1000;
  }  // no processor that runs this counts more slowly
#else
  static std::uint64_t read_ticks() { return 0; }
  static std::uint64_t ticks_per_microsecond() { return 0; }  // always asks
#endif

  std::uint64_t ticks_max_ = ticks_per_microsecond();
  std::uint64_t read_at_ = read_ticks() - ticks_max_;
  Instant last_;
};

}  // namespace rrdma::host
