#include "nic/wakeup/delayed_ack.h"

#include <gtest/gtest.h>

namespace rrdma::nic::delayed_ack_test {

constexpr Duration kSoon = microseconds(5);
constexpr Duration kLate = microseconds(50);

class DelayedAckTest : public testing::Test {
 protected:
  void exchange(int times, Duration after = kSoon) {
    for (int i = 0; i < times; ++i) {
      ack_.note_message(now_);
      now_ = now_ + after;
      ack_.note_post(now_);
      now_ = now_ + kSoon;
    }
  }
  [[nodiscard]] bool expects_reply_to_next() const {
    DelayedAck copy = ack_;
    copy.note_message(now_);
    return copy.expects_reply();
  }

  DelayedAck ack_;
  Instant now_{1'000'000'000};
};

TEST_F(DelayedAckTest, ComesWithRepliesInARow) {
  EXPECT_FALSE(expects_reply_to_next());
  exchange(7);
  EXPECT_FALSE(expects_reply_to_next());
  exchange(1);
  EXPECT_TRUE(expects_reply_to_next());
  exchange(100);
  EXPECT_TRUE(expects_reply_to_next());
}

TEST_F(DelayedAckTest, ExpectsNothingWhereNothingCame) {
  exchange(100);
  EXPECT_FALSE(ack_.expects_reply());
}

TEST_F(DelayedAckTest, EndsWithOneMessageThatIsNotRepliedInTime) {
  exchange(100);
  ack_.note_message(now_);
  ack_.note_time(now_ + kSoon);
  EXPECT_TRUE(ack_.expects_reply());
  ack_.note_message(now_ + kSoon);  // does not extend the patience
  ack_.note_time(now_ + kLate);
  EXPECT_FALSE(ack_.expects_reply());
  exchange(7);
  EXPECT_FALSE(expects_reply_to_next());
}

TEST_F(DelayedAckTest, EndsWithALateReplyAndWhenTold) {
  exchange(100);
  exchange(1, kLate);
  EXPECT_FALSE(expects_reply_to_next());
  exchange(8);
  EXPECT_TRUE(expects_reply_to_next());
  ack_.give_up();
  EXPECT_FALSE(expects_reply_to_next());
}

TEST_F(DelayedAckTest, IsNotTouchedByPostsThatFollowNothing) {
  for (int i = 0; i < 100; ++i) ack_.note_post(now_);
  EXPECT_FALSE(expects_reply_to_next());
}

TEST_F(DelayedAckTest, TellsOnceOfNewReplies) {
  exchange(7);
  EXPECT_FALSE(ack_.replied_again());
  exchange(1);
  EXPECT_TRUE(ack_.replied_again());
  EXPECT_FALSE(ack_.replied_again());
  exchange(1);
  EXPECT_TRUE(ack_.replied_again());
}

}  // namespace rrdma::nic::delayed_ack_test
