// What a server counts: Latencies, a histogram of durations with steps of 6 %, and what is known of each method.
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

// Durations from 1 ns to an hour in buckets: 16 to each power of two.
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
  // What `share` of them (0.5: half) took at most; 0 when there are none.
  [[nodiscard]] Nanoseconds percentile(double share) const;
  // How many took at most so long.
  [[nodiscard]] std::uint64_t within(Nanoseconds duration) const;

 private:
  static constexpr unsigned kSteps = 16;
  static constexpr unsigned kOctaves = 42;
  static constexpr std::size_t kBuckets = std::size_t{kSteps} * kOctaves;
  // The first 16 buckets hold 0 to 15 ns; then each octave has 16.
  static constexpr std::size_t index_of(std::uint64_t value) {
    if (value < kSteps) return static_cast<std::size_t>(value);
    const auto octave = static_cast<unsigned>(std::bit_width(value)) - 4;
    const std::size_t index = std::size_t{octave} * kSteps + ((value >> (octave - 1)) - kSteps);
    return index < kBuckets ? index : kBuckets - 1;
  }
  // The greatest value of a bucket.
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
  std::array<std::uint64_t, kHighestCode + 1> ended = {};  // by how they ended
  Latencies latencies;                                     // from the call's arrival until its reply
};

struct ServerCounters {
  std::uint64_t connections = 0;  // that were accepted
  std::uint64_t refused = 0;      // that were not
  std::uint64_t broken = 0;       // that were ended because the client broke the protocol
  std::uint64_t calls = 0;        // that were begun
  std::uint64_t good = 0;         // that ended well
};

struct ServerStatistics {
  ServerCounters counters;
  std::size_t connections = 0;            // that there are now
  std::vector<MethodStatistics> methods;  // in the order of their names

  // For Prometheus, in its text format.
  [[nodiscard]] RRDMA_RPC_API std::string prometheus() const;
};

}  // namespace v0
}  // namespace rrdma::rpc
