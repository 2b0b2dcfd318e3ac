// DelayedAck: decides whether the acknowledgement of a message may wait for the program's reply and leave
// with it, like TCP's delayed ACK. This saves one system call before the reply and one at the receiver of
// both. It waits only if the program usually posts a request immediately after a message arrives, as both
// ends of a ping-pong do (docs/adr/0010).
#pragma once

#include <algorithm>
#include <utility>

#include "base/instant.h"

namespace rrdma::nic {

class DelayedAck {
 public:
  void note_message(Instant now) {
    if (!expecting_) since_ = now;
    expecting_ = true;
  }
  void note_post(Instant now) {
    note_time(now);
    if (!expecting_) return;
    expecting_ = false;
    replied_ = true;
    replies_ = std::min(replies_ + 1, kHabit);
  }
  void note_time(Instant now) {
    if (expecting_ && now > patience_ends()) give_up();
  }
  // No reply will come.
  void give_up() {
    expecting_ = false;
    replies_ = 0;
  }

  // Answers may wait until patience_ends().
  [[nodiscard]] bool expects_reply() const { return expecting_ && replies_ == kHabit; }
  [[nodiscard]] Instant patience_ends() const { return since_ + kPatience; }
  // The program has the habit of replying, and has replied since the last call.
  [[nodiscard]] bool replied_again() { return std::exchange(replied_, false) && replies_ == kHabit; }

 private:
  static constexpr int kHabit = 8;  // replies in a row
  static constexpr Duration kPatience = microseconds(20);

  int replies_ = 0;
  Instant since_;
  bool expecting_ = false;
  bool replied_ = false;
};

}  // namespace rrdma::nic
