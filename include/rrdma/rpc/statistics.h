// Statistics of a server: Latencies, a histogram of durations with steps of 6 %, and counters for each
// method.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

// A histogram of durations from 1 ns to one hour, with 16 buckets for each power of two.
class RRDMA_RPC_API Latencies {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void record(Nanoseconds duration) {
    const auto value = static_cast<std::uint64_t>(duration.count() > 0 ? duration.count() : 0);
    ++counts_[index_of(value)];
    ++count_;
    sum_ += value;
  }
  void merge(const Latencies& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Nanoseconds sum() const { return Nanoseconds(sum_); }
  // The duration that the fraction `share` (0.5: half) of the calls did not exceed; 0 if there are none.
  [[nodiscard]] Nanoseconds percentile(double share) const;
  // The number of calls that took at most this long.
  [[nodiscard]] std::uint64_t within(Nanoseconds duration) const;

 private:
  static constexpr unsigned kSteps = 16;
  static constexpr unsigned kOctaves = 42;
  static constexpr std::size_t kBuckets = std::size_t{kSteps} * kOctaves;
  // The first 16 buckets hold 0 to 15 ns. Each octave after that has 16 buckets.
  static constexpr std::size_t index_of(std::uint64_t value) {
    if (value < kSteps) return static_cast<std::size_t>(value);
    const auto octave = static_cast<unsigned>(std::bit_width(value)) - 4;
    const std::size_t index = std::size_t{octave} * kSteps + ((value >> (octave - 1)) - kSteps);
    return index < kBuckets ? index : kBuckets - 1;
  }
  // The largest value of a bucket.
  static constexpr std::uint64_t end_of(std::size_t index) {
    if (index < kSteps) return index;
    const std::size_t octave = index / kSteps;
    return ((index % kSteps + kSteps + 1) << (octave - 1)) - 1;
  }

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
};

struct MethodStatistics {
  std::string service;
  std::string method;
  std::uint64_t running = 0;
  std::array<std::uint64_t, kHighestCode + 1> ended = {};  // by status code
  Latencies latencies;                                     // from the arrival of the call to its reply
};

struct ServerCounters {
  std::uint64_t connections = 0;  // accepted connections
  std::uint64_t refused = 0;      // refused connections
  std::uint64_t broken = 0;       // connections ended because the client violated the protocol
  std::uint64_t calls = 0;        // calls that started
  std::uint64_t good = 0;         // calls that succeeded
};

struct ServerStatistics {
  ServerCounters counters;
  std::size_t connections = 0;            // open connections
  std::vector<MethodStatistics> methods;  // sorted by name

  // Formats the statistics in the text format of Prometheus.
  [[nodiscard]] RRDMA_RPC_API std::string prometheus() const;
};

}  // namespace v0
}  // namespace rrdma::rpc
