// Credits alone, without a device: what may be sent, what is owed, and when a credit message is due.
#include "lib/comm/credits.h"

#include <gtest/gtest.h>

namespace rrdma::comm::detail::credits_test {

// An end with `depth` receives that has told the peer about all of them.
Credits opened(std::uint32_t granted, std::uint32_t depth) {
  Credits credits;
  credits.open(granted);
  credits.owe(depth, 0);
  EXPECT_EQ(credits.grant(), depth);
  return credits;
}

TEST(Credits, TheLastOneIsForControlMessages) {
  Credits credits = opened(2, 4);
  EXPECT_TRUE(credits.has_for_message());
  credits.use();
  EXPECT_FALSE(credits.has_for_message());
  EXPECT_TRUE(credits.has_for_control());
  credits.use();
  EXPECT_FALSE(credits.has_for_control());
}

TEST(Credits, ThePeerGrantsNoMoreThanItHas) {
  Credits credits = opened(8, 4);
  EXPECT_FALSE(credits.accept(1, 8)) << "all eight are here";
  credits.use();
  credits.use();
  EXPECT_FALSE(credits.accept(3, 8));
  EXPECT_EQ(credits.ours(), 6U) << "a refused grant changes nothing";
  EXPECT_TRUE(credits.accept(2, 8));
  EXPECT_EQ(credits.ours(), 8U);
  Credits many = opened(9, 4);
  EXPECT_FALSE(many.accept(1, 8)) << "no underflow if there are more than the peer can have";
}

TEST(Credits, ThePeerSendsNoMoreThanItWasGranted) {
  Credits credits = opened(4, 2);
  EXPECT_TRUE(credits.peer_used_one());
  EXPECT_TRUE(credits.peer_used_one());
  EXPECT_FALSE(credits.peer_used_one());
  credits.owe(1, 1);
  EXPECT_FALSE(credits.peer_used_one()) << "owed, but not granted";
  EXPECT_EQ(credits.grant(), 1U);
  EXPECT_TRUE(credits.peer_used_one());
}

TEST(Credits, AMessageIsDueInPortions) {
  Credits credits = opened(64, 64);
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(credits.message_due(64)) << i;
    EXPECT_TRUE(credits.peer_used_one());
    credits.owe(1, 1);
  }
  EXPECT_TRUE(credits.message_due(64));
  EXPECT_EQ(credits.grant(), 16U);
  EXPECT_FALSE(credits.message_due(64));
}

TEST(Credits, AMessageIsDueForAPeerThatStarves) {
  Credits credits = opened(64, 3);
  EXPECT_TRUE(credits.peer_used_one());
  credits.owe(1, 1);
  EXPECT_FALSE(credits.peer_starves());
  EXPECT_TRUE(credits.peer_used_one());
  EXPECT_TRUE(credits.peer_starves());
  EXPECT_TRUE(credits.message_due(64));
}

// Otherwise two ends would answer each other's credit messages forever.
TEST(Credits, CreditMessagesEarnNoCreditMessage) {
  Credits credits = opened(4, 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(credits.peer_used_one());
    credits.owe(1, 0);
  }
  EXPECT_FALSE(credits.peer_starves());
  EXPECT_FALSE(credits.message_due(4));
  EXPECT_EQ(credits.grant(), 4U) << "they travel with the next message";
}

}  // namespace rrdma::comm::detail::credits_test
