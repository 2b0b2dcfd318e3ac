#include "nic/reply_habit.h"

#include <gtest/gtest.h>

namespace rrdma::nic {
namespace {

void exchange(ReplyHabit& habit, int times) {
  for (int i = 0; i < times; ++i) {
    habit.note_arrival();
    habit.note_post();
  }
}

TEST(ReplyHabit, ComesWithRepliesInARow) {
  ReplyHabit habit;
  EXPECT_FALSE(habit.likely());
  exchange(habit, 7);
  EXPECT_FALSE(habit.likely());
  exchange(habit, 1);
  EXPECT_TRUE(habit.likely());
  exchange(habit, 100);
  EXPECT_TRUE(habit.likely());
}

TEST(ReplyHabit, EndsWithOneMessageThatIsNotReplied) {
  ReplyHabit habit;
  exchange(habit, 100);
  habit.note_arrival();
  habit.note_other();
  EXPECT_FALSE(habit.likely());
  exchange(habit, 7);
  EXPECT_FALSE(habit.likely());
}

TEST(ReplyHabit, IsNotTouchedByPollsAndPostsThatFollowNothing) {
  ReplyHabit habit;
  for (int i = 0; i < 100; ++i) habit.note_post();
  EXPECT_FALSE(habit.likely());
  exchange(habit, 8);
  for (int i = 0; i < 100; ++i) habit.note_other();
  EXPECT_TRUE(habit.likely());
}

}  // namespace
}  // namespace rrdma::nic
