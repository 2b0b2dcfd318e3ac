// Ticks: measures the duration of calls. If programs may read the CPU's time stamp counter, this costs a
// quarter of reading the clock, which also serialises the read and converts it to a time.
#pragma once

#include <chrono>
#include <cstdint>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

using Ticks = std::uint64_t;

#if defined(__aarch64__)
inline Ticks ticks_now() {
  Ticks now = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
}
inline double nanoseconds_of_a_tick() {
  std::uint64_t frequency = 0;
  asm("mrs %0, cntfrq_el0" : "=r"(frequency));
  return 1e9 / static_cast<double>(frequency);
}
#else
inline Ticks ticks_now() {
  return static_cast<Ticks>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}
inline double nanoseconds_of_a_tick() { return 1; }
#endif

inline std::chrono::nanoseconds time_since(Ticks begin) {
  static const double one = nanoseconds_of_a_tick();
  // The counters of different cores may differ slightly, so the difference is signed.
  const auto passed = static_cast<std::int64_t>(ticks_now() - begin);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(passed) * one));
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
