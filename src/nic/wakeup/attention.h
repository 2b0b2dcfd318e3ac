// Attention: whether the thread of a lane looks on for a moment instead of going to sleep, because the next packet for a
// program that sleeps by events is near. To be woken costs more than most answers take, and beside such a program it would be
// two threads that are woken for each message, one after the other: this one, and then the program.
//
// Only where it has paid: after packets that came close behind one another, for as long as it goes on finding some. Once it
// looked in vain, the next try comes later, and later again. And never for long at a stretch: IdlePolls tells what kernels do
// to others beside threads that yield.
#pragma once

#include <algorithm>

#include "base/instant.h"

namespace rrdma::nic {

class Attention {
 public:
  // At most that long for one packet.
  static constexpr Duration kSpan = microseconds(50);
  // Who yields and is away for longer shares its core with one that computes: to sleep is better, because whoever is
  // woken goes before that one.
  static constexpr Duration kYieldMost = microseconds(50);

  // The thread has served, and found something, beside a program that sleeps by events.
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
