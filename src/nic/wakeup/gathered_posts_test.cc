#include "nic/wakeup/gathered_posts.h"

#include <gtest/gtest.h>

namespace rrdma::nic::gathered_posts_test {

class GatheredPostsTest : public testing::Test {
 protected:
  // Makes `times` calls, each `after` the previous one.
  void call(int times, Duration after = nanoseconds(300)) {
    for (int i = 0; i < times; ++i) {
      now_ = now_ + after;
      posts_.note_call(now_);
    }
  }
  bool post() {
    call(1);
    return posts_.take(now_);
  }

  GatheredPosts posts_;
  Instant now_{1'000'000'000};
};

TEST_F(GatheredPostsTest, WaitsOnlyForWhoCallsAgainAtOnce) {
  EXPECT_FALSE(post());
  call(40);
  EXPECT_TRUE(post());
  call(1, microseconds(3));
  EXPECT_FALSE(posts_.take(now_)) << "it computed in between";
  call(8);
  EXPECT_FALSE(post()) << "and does not have the habit again yet";
}

TEST_F(GatheredPostsTest, KeepsAnOldHabitThroughOnePause) {
  call(100);
  call(1, microseconds(500));
  EXPECT_FALSE(posts_.take(now_)) << "the first post after a pause waits for nothing";
  EXPECT_TRUE(post());
  posts_.clear();
  call(2, microseconds(500));
  EXPECT_FALSE(post());
}

TEST_F(GatheredPostsTest, FillsATrainAndNoMore) {
  call(40);
  int gathered = 0;
  while (post()) ++gathered;
  EXPECT_EQ(gathered, 15);
  EXPECT_TRUE(posts_.any());
  posts_.clear();
  EXPECT_FALSE(posts_.any());
  EXPECT_TRUE(post());
}

TEST_F(GatheredPostsTest, HasLittlePatience) {
  call(40);
  EXPECT_TRUE(post());
  call(8, microseconds(2));
  EXPECT_FALSE(posts_.take(now_));
}

TEST_F(GatheredPostsTest, ALongSendIsNoPauseOfTheProgram) {
  call(40);
  EXPECT_TRUE(post());
  posts_.clear();
  now_ = now_ + microseconds(15);
  posts_.note_end(now_);
  EXPECT_TRUE(post());
}

TEST_F(GatheredPostsTest, NorIsALongPollWhileAHabitComes) {
  EXPECT_FALSE(posts_.counts());
  for (int i = 0; i < 8; ++i) {
    call(5);
    EXPECT_TRUE(posts_.counts());
    now_ = now_ + microseconds(15);
    posts_.note_end(now_);
  }
  EXPECT_TRUE(post());
}

TEST_F(GatheredPostsTest, DoesNotWaitForWhoMaySleepNext) {
  call(40);
  posts_.note_arming();
  EXPECT_FALSE(post());
}

}  // namespace rrdma::nic::gathered_posts_test
