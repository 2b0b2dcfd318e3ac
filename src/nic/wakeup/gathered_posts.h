// GatheredPosts: decides whether a posted request may wait for the next ones, so that they leave in one
// train. Sending costs a system call, however little is sent. A request waits only while an answer is in
// flight, which will wake a thread in any case. The program must also call again at once, as one that posts
// in a loop and then polls. The wait is no longer than a train takes to fill. A poll sends everything that
// has gathered (docs/adr/0022).
//
// Threads: under the lane's lock.
#pragma once

#include <algorithm>

#include "base/instant.h"

namespace rrdma::nic {

class GatheredPosts {
 public:
  // The program calls.
  void note_call(Instant now) {
    at_once_ = now - last_call_ <= kAtOnce;
    habit_ = at_once_ ? std::min(habit_ + 1, kHabitMax) : std::max(habit_ - kHabit, 0);
    last_call_ = now;
  }
  // A long call is over.
  void note_end(Instant now) { last_call_ = now; }
  // The program may sleep next.
  void note_arming() { habit_ = 0; }

  // True if a post may wait; then it is counted.
  [[nodiscard]] bool take(Instant now) {
    if (habit_ < kHabit || !at_once_) return false;
    if (posts_ == 0) since_ = now;
    if (posts_ + 1 >= kPostsMax || now - since_ > kPatience) return false;
    ++posts_;
    return true;
  }
  // Everything was sent.
  void clear() { posts_ = 0; }
  [[nodiscard]] bool any() const { return posts_ != 0; }
  // True if a habit exists or develops: report the end of a long call.
  [[nodiscard]] bool counts() const { return habit_ != 0; }

 private:
  static constexpr int kHabit = 32;  // calls in a row
  // An old habit survives one pause: another thread may have had the core, such as a lane's.
  static constexpr int kHabitMax = 2 * kHabit;
  static constexpr int kPostsMax = 16;
  static constexpr Duration kAtOnce = microseconds(2);
  static constexpr Duration kPatience = microseconds(10);

  int habit_ = 0;
  bool at_once_ = false;  // the last call
  int posts_ = 0;
  Instant since_;
  Instant last_call_;
};

}  // namespace rrdma::nic
