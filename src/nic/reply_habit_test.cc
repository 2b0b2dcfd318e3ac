#include "nic/reply_habit.h"

#include <gtest/gtest.h>

namespace rrdma::nic {
namespace {

constexpr Duration kSoon = microseconds(5);
constexpr Duration kLate = microseconds(50);

class ReplyHabitTest : public testing::Test {
 protected:
  void exchange(int times, Duration after = kSoon) {
    for (int i = 0; i < times; ++i) {
      habit_.note_arrival(now_);
      now_ = now_ + after;
      habit_.note_post(now_);
      now_ = now_ + kSoon;
    }
  }
  [[nodiscard]] bool expects_reply_to_next() const {
    ReplyHabit copy = habit_;
    copy.note_arrival(now_);
    return copy.expects_reply();
  }

  ReplyHabit habit_;
  Instant now_{1'000'000'000};
};

TEST_F(ReplyHabitTest, ComesWithRepliesInARow) {
  EXPECT_FALSE(expects_reply_to_next());
  exchange(7);
  EXPECT_FALSE(expects_reply_to_next());
  exchange(1);
  EXPECT_TRUE(expects_reply_to_next());
  exchange(100);
  EXPECT_TRUE(expects_reply_to_next());
}

TEST_F(ReplyHabitTest, ExpectsNothingWhereNothingCame) {
  exchange(100);
  EXPECT_FALSE(habit_.expects_reply());
}

TEST_F(ReplyHabitTest, EndsWithOneMessageThatIsNotRepliedInTime) {
  exchange(100);
  habit_.note_arrival(now_);
  habit_.note_time(now_ + kSoon);
  EXPECT_TRUE(habit_.expects_reply());
  habit_.note_arrival(now_ + kSoon);  // no new patience
  habit_.note_time(now_ + kLate);
  EXPECT_FALSE(habit_.expects_reply());
  exchange(7);
  EXPECT_FALSE(expects_reply_to_next());
}

TEST_F(ReplyHabitTest, EndsWithALateReplyAndWhenTold) {
  exchange(100);
  exchange(1, kLate);
  EXPECT_FALSE(expects_reply_to_next());
  exchange(8);
  EXPECT_TRUE(expects_reply_to_next());
  habit_.give_up();
  EXPECT_FALSE(expects_reply_to_next());
}

TEST_F(ReplyHabitTest, IsNotTouchedByPostsThatFollowNothing) {
  for (int i = 0; i < 100; ++i) habit_.note_post(now_);
  EXPECT_FALSE(expects_reply_to_next());
}

TEST_F(ReplyHabitTest, TellsOnceOfNewReplies) {
  exchange(7);
  EXPECT_FALSE(habit_.replied_again());
  exchange(1);
  EXPECT_TRUE(habit_.replied_again());
  EXPECT_FALSE(habit_.replied_again());
  exchange(1);
  EXPECT_TRUE(habit_.replied_again());
}

}  // namespace
}  // namespace rrdma::nic
