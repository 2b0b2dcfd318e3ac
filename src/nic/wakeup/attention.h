// Attention: decides whether the thread of a lane polls for a moment instead of going to sleep, because the
// next packet for a program that sleeps on events is near. A wake-up costs more than most answers take.
// Beside such a program each message would wake two threads in sequence: this one, and then the program.
//
// It polls only if that has paid off: after packets in close succession, and as long as it keeps finding
// some. After a failed attempt the next one comes later, with growing intervals. A stretch is never long:
// IdlePolls explains what kernels do to others beside threads that yield.
#pragma once

#include <algorithm>

#include "base/instant.h"

namespace rrdma::nic {

class Attention {
 public:
  // The longest polling for one packet.
  static constexpr Duration kSpan = microseconds(50);
  // A yield that takes longer means that a computing thread shares the core. Sleeping is better then, because
  // a woken thread preempts the other one.
  static constexpr Duration kYieldMost = microseconds(50);

  // The thread has served and received something, beside a program that sleeps on events.
  [[nodiscard]] bool wanted(Instant now) {
    const bool close = now - last_arrival_ <= kClose;
    last_arrival_ = now;
    if (!close || now < not_before_) return false;
    if (awake_since_ == kNever) awake_since_ = now;
    if (now - awake_since_ < kStretch) return true;
    awake_since_ = kNever;
    crowded_pause_ = kCrowdedPauseMin;
    return false;
  }
  void note_found() { pause_ = kPauseMin; }
  void note_vain(Instant now) {
    not_before_ = now + pause_;
    pause_ = std::min(Duration{pause_.ns * 2}, kPauseMax);
    awake_since_ = kNever;
  }
  void note_crowded(Instant now) {
    not_before_ = now + crowded_pause_;
    crowded_pause_ = std::min(Duration{crowded_pause_.ns * 8}, kPauseMax);
    awake_since_ = kNever;
  }

 private:
  static constexpr Duration kClose = microseconds(100);
  static constexpr Duration kStretch = milliseconds(2);
  static constexpr Duration kPauseMin = microseconds(200);
  static constexpr Duration kCrowdedPauseMin = milliseconds(1);
  static constexpr Duration kPauseMax = seconds(1);

  Instant last_arrival_{};
  Instant awake_since_ = kNever;
  Instant not_before_{};
  Duration pause_ = kPauseMin;
  Duration crowded_pause_ = kCrowdedPauseMin;
};

}  // namespace rrdma::nic
