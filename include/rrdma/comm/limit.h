// Limit: bounds the wait for an operation by a deadline, a std::stop_token, both or neither. When the limit
// is reached, the waiter resumes at once. The memory of a request that was already posted stays with the
// library until the device has finished with it.
#pragma once

#include <chrono>
#include <ratio>
#include <stop_token>
#include <utility>

namespace rrdma::comm {
inline namespace v0 {

// The clock of all deadlines.
using Clock = std::chrono::steady_clock;

// A bound on waiting: a duration from now, a point in time, a stop token, or no bound.
class Limit {
 public:
  Limit() = default;
  // The duration starts now.
  template <typename Rep, typename Period>
  Limit(std::chrono::duration<Rep, Period> within) : Limit(within, std::stop_token()) {}
  template <typename Rep, typename Period>
  Limit(std::chrono::duration<Rep, Period> within, std::stop_token stop) : stop_(std::move(stop)) {
    // In floating point, because nanoseconds cannot express every duration.
    using Hours = std::chrono::duration<double, std::ratio<3600>>;
    constexpr Hours kCentury{24 * 365 * 100};
    // A duration near the range of the clock means no limit.
    if (Hours(within) > kCentury) return;
    at_ = Clock::now();
    if (within.count() > 0) at_ += std::chrono::duration_cast<Clock::duration>(within);
  }
  Limit(Clock::time_point at) : at_(at) {}
  Limit(Clock::time_point at, std::stop_token stop) : at_(at), stop_(std::move(stop)) {}
  Limit(std::stop_token stop) : stop_(std::move(stop)) {}

  [[nodiscard]] bool timed() const { return at_ != Clock::time_point::max(); }
  [[nodiscard]] Clock::time_point at() const { return at_; }
  [[nodiscard]] const std::stop_token& stop() const { return stop_; }

 private:
  Clock::time_point at_ = Clock::time_point::max();
  std::stop_token stop_;
};

}  // namespace v0
}  // namespace rrdma::comm
