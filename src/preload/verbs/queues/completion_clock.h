// CompletionClock: the times of the completions of one CQ, on the device's clock and on the wall clock.
// Neither time runs backwards from one completion to the next. One thread at a time: the CQ's consumer.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rrdma::verbs {

class CompletionClock {
 public:
  // The time of the next completion. Several lanes report to one CQ, and each reads the clock for itself.
  std::int64_t order(std::int64_t device_ns) {
    latest_ns_ = std::max(latest_ns_, device_ns);
    return latest_ns_;
  }

  // The same on the wall clock. `offset_ns`: how far the wall clock is ahead of the device's clock now. It is
  // measured for each completion and varies by nanoseconds, and the wall clock may be set back. Then this
  // clock runs at half speed until the wall clock has caught up. REQUIRES: order() returned `device_ns`.
  std::int64_t wall_ns(std::int64_t device_ns, std::int64_t offset_ns) {
    if (device_ns == told_ns_) return told_wall_ns_;
    told_wall_ns_ = std::max(device_ns + offset_ns, told_wall_ns_ + (device_ns - told_ns_) / 2);
    told_ns_ = device_ns;
    return told_wall_ns_;
  }

 private:
  std::int64_t latest_ns_ = 0;
  std::int64_t told_ns_ = 0;  // the last completion whose wall time was queried
  std::int64_t told_wall_ns_ = 0;
};

}  // namespace rrdma::verbs
