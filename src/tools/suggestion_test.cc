#include "tools/suggestion.h"

#include <gtest/gtest.h>

#include <vector>

namespace rrdma::tools::suggestion_test {

TEST(EditDistance, CountsChangesAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("stat", "stat"), 0u);
  EXPECT_EQ(edit_distance("", "top"), 3u);
  EXPECT_EQ(edit_distance("stta", "stat"), 1u);
  EXPECT_EQ(edit_distance("decod", "decode"), 1u);
  EXPECT_EQ(edit_distance("doctro", "doctor"), 1u);
  EXPECT_EQ(edit_distance("explain", "capture"), 6u);
}

TEST(ClosestWord, IsWhatWasMeantOrNothing) {
  const std::vector<std::string> known = {"decode", "run", "devices", "gids", "stat", "explain", "--netdev"};
  EXPECT_EQ(closest_word("decoed", known), "decode");
  EXPECT_EQ(closest_word("rnu", known), "run");
  EXPECT_EQ(closest_word("stats", known), "stat");
  EXPECT_EQ(closest_word("exp", known), "explain");
  EXPECT_EQ(closest_word("device", known), "devices");
  EXPECT_EQ(closest_word("--netdv", known), "--netdev");
  EXPECT_EQ(closest_word("ibv_devinfo", known), "");
  EXPECT_EQ(closest_word("x", known), "");
  EXPECT_EQ(closest_word("", known), "");
}

}  // namespace rrdma::tools::suggestion_test
