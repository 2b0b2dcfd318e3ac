#include "base/keys/keyed_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace rrdma::keyed_order_test {

TEST(KeyedOrder, EveryNumberComesOnce) {
  for (const unsigned bits : {11u, 12u, 16u}) {
    const KeyedOrder order(KeySource(0x1234567890abcdef));
    std::vector<bool> seen(std::size_t{1} << bits);
    for (std::uint32_t i = 0; i < seen.size(); ++i) {
      const std::uint32_t number = order(i, bits);
      ASSERT_LT(number, seen.size());
      ASSERT_FALSE(seen[number]) << number;
      seen[number] = true;
    }
  }
}

TEST(KeyedOrder, TheNextIsNotTheNeighbour) {
  int neighbours = 0;
  for (std::uint64_t key = 1; key <= 100; ++key) {
    const KeyedOrder order{KeySource(key)};
    for (std::uint32_t i = 0; i < 100; ++i) {
      const auto step = static_cast<std::int32_t>(order(i + 1, 16) - order(i, 16));
      neighbours += step >= -16 && step <= 16;
    }
  }
  EXPECT_LT(neighbours, 50);  // 5 in 10,000 by chance
}

TEST(KeyedOrder, IsAnotherForEachProcess) {
  const KeyedOrder one(KeySource(1)), another(KeySource(2));
  int equal = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) equal += one(i, 16) == another(i, 16);
  EXPECT_LT(equal, 10);
}

}  // namespace rrdma::keyed_order_test
