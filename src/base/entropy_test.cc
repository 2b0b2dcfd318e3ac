#include "base/entropy.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace rrdma::entropy_test {

TEST(Entropy, NeverComesTwice) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(system_entropy()).second);
}

TEST(Entropy, FillsToTheLastOctet) {
  std::array<std::uint8_t, 1000> octets{};
  std::array<int, 1000> touched{};
  for (int round = 0; round < 8; ++round) {
    fill_with_system_entropy(octets);
    for (std::size_t i = 0; i < octets.size(); ++i) touched[i] |= octets[i];
  }
  for (const int ever : touched) EXPECT_NE(ever, 0);
}

}  // namespace rrdma::entropy_test
