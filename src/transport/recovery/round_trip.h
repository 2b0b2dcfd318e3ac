// RoundTrip: estimates the round-trip time: smoothed mean and variation as in RFC 6298, the latest sample,
// and the minimum of the last ten to twenty seconds, which is the path without queueing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/instant.h"

namespace rrdma::transport {

class RoundTrip {
 public:
  // A minimum expires after this time, because the path may change to a longer one.
  static constexpr Duration kMinimumLife = seconds(10);

  void sample(Duration rtt, Instant now) {
    rtt = std::max(rtt, Duration{1});
    latest_ = rtt;
    if (now - minimum_since_ >= kMinimumLife || smoothed_.ns == 0) {
      minimum_before_ = smoothed_.ns == 0 ? rtt : minimum_;
      minimum_ = rtt;
      minimum_since_ = now;
    }
    minimum_ = std::min(minimum_, rtt);
    if (smoothed_.ns == 0) {
      smoothed_ = rtt;
      variation_ = rtt / 2;
      return;
    }
    const std::int64_t error = rtt.ns - smoothed_.ns;
    variation_.ns += ((error < 0 ? -error : error) - variation_.ns) / 4;
    smoothed_.ns += error / 8;
  }

  [[nodiscard]] bool measured() const { return smoothed_.ns != 0; }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }
  [[nodiscard]] Duration latest() const { return latest_; }
  [[nodiscard]] Duration minimum() const { return std::min(minimum_, minimum_before_); }
  // A packet is probably lost after this much silence. REQUIRES: measured().
  [[nodiscard]] Duration patience() const { return smoothed_ * 2 + variation_ * 4; }

 private:
  Duration smoothed_, variation_, latest_;
  Duration minimum_, minimum_before_;
  Instant minimum_since_;
};

}  // namespace rrdma::transport
