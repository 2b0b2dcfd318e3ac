// ReplyHabit: whether the program, after a poll that brought it something, usually posts a request before it
// polls again, as the two ends of a ping-pong do. Then the acknowledgement of what came can wait for that
// request and leave with it: one system call less before the reply, and one less for whoever receives both.
#pragma once

#include <algorithm>

namespace rrdma::nic {

class ReplyHabit {
 public:
  // A poll brought something that wants an answer.
  void note_arrival() { expecting_ = true; }
  void note_post() {
    if (!expecting_) return;
    expecting_ = false;
    replies_ = std::min(replies_ + 1, kHabit);
  }
  // The program polls, or does anything else, without having posted.
  void note_other() {
    if (!expecting_) return;
    expecting_ = false;
    replies_ = 0;
  }
  [[nodiscard]] bool likely() const { return replies_ == kHabit; }

 private:
  static constexpr int kHabit = 8;  // replies in a row
  int replies_ = 0;
  bool expecting_ = false;
};

}  // namespace rrdma::nic
