#include "daemon/shares/shares.h"

#include <gtest/gtest.h>

namespace rrdma::daemon::shares_test {

constexpr uid_t kDaemon = 0;
constexpr uid_t kAlice = 1000;
constexpr uid_t kBob = 1001;

unsigned all_that(Shares& shares, uid_t uid) {
  unsigned taken = 0;
  while (shares.take(uid)) ++taken;
  return taken;
}

TEST(Shares, OneUserGetsHalfAndTheNextHalfOfTheRest) {
  Shares shares(1000, kDaemon);
  EXPECT_EQ(all_that(shares, kAlice), 375u);
  EXPECT_EQ(all_that(shares, kBob), 187u);
  EXPECT_FALSE(shares.take(kAlice)) << "what Bob took is not hers";
  for (uid_t uid = 2000; uid < 2005; ++uid) EXPECT_GT(all_that(shares, uid), 0u) << uid;
  EXPECT_GT(all_that(shares, kDaemon), 0u) << "the daemon's own user takes what is left";
  EXPECT_EQ(shares.total(), 1000u);
}

// A regression: the ninth or twelfth user got nothing.
TEST(Shares, ManyUsersDoNotLockTheNextOneOut) {
  Shares shares(1000, kDaemon);
  for (uid_t uid = 2000; uid < 2050; ++uid) (void)all_that(shares, uid);
  EXPECT_EQ(all_that(shares, kAlice), 3u) << "what a newcomer gets of the reserve";
  EXPECT_EQ(all_that(shares, kBob), 3u);
}

TEST(Shares, WhatIsGivenBackCanBeTakenAgain) {
  Shares shares(11, kDaemon);
  EXPECT_TRUE(shares.take(kAlice, 4));
  EXPECT_FALSE(shares.take(kAlice));
  shares.give_back(kAlice, 3);
  EXPECT_EQ(shares.of(kAlice), 1u);
  EXPECT_TRUE(shares.take(kBob, 3));
  EXPECT_TRUE(shares.take(kAlice));
  shares.give_back(kAlice, 2);
  EXPECT_EQ(shares.of(kAlice), 0u);
}

TEST(Shares, MoreThanThereIsIsRefusedWhoeverAsks) {
  Shares shares(8, kDaemon);
  EXPECT_FALSE(shares.take(kDaemon, 9));
  EXPECT_FALSE(shares.take(kAlice, ~std::size_t{0}));
  EXPECT_TRUE(shares.take(kDaemon, 8));
  EXPECT_FALSE(shares.take(kDaemon));
}

}  // namespace rrdma::daemon::shares_test
