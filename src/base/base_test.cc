// Tests of the small headers in base/, one group for each header.
#include <gtest/gtest.h>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "base/octets.h"
#include "base/prng.h"
#include "base/result.h"

namespace rrdma::base_test {

TEST(Result, HoldsAValueOrAnError) {
  Result<int, const char*> good = 7;
  Result<int, const char*> bad = Failure{"why"};
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  ASSERT_FALSE(bad.ok());
  EXPECT_STREQ(bad.error(), "why");
  EXPECT_DEATH(static_cast<void>(bad.value()), "internal error");
}

TEST(Octets, BigEndianBothWays) {
  std::uint8_t b[8];
  store_be64(b, 0x0102030405060708);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(b[i], i + 1);
  EXPECT_EQ(load_be16(b), 0x0102);
  EXPECT_EQ(load_be24(b), 0x010203u);
  EXPECT_EQ(load_be32(b), 0x01020304u);
  EXPECT_EQ(load_be64(b), 0x0102030405060708u);
}

TEST(Prng, TheSameSeedGivesTheSameSequenceEverywhere) {
  Prng prng(42);
  EXPECT_EQ(prng.next(), 0x15780b2e0c2ec716u);
  EXPECT_EQ(prng.next(), 0x6104d9866d113a7eu);
  Prng other(42);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(other.below(10), 10u);
}

struct Item {
  int value;
  ListHook hook;
};

TEST(IntrusiveList, KeepsOrderAndUnlinksFromTheMiddle) {
  Item a{1, {}}, b{2, {}}, c{3, {}};
  IntrusiveList<Item, &Item::hook> list;
  list.push_back(a);
  list.push_back(b);
  list.push_front(c);
  list.remove(a);
  EXPECT_FALSE(a.hook.linked());
  EXPECT_EQ(list.pop_front().value, 3);
  EXPECT_EQ(list.pop_front().value, 2);
  EXPECT_TRUE(list.empty());
}

TEST(Instant, NeverIsAfterEverything) {
  EXPECT_LT((Instant{1} + seconds(100)), kNever);
  EXPECT_EQ((Instant{5} - Instant{2}).ns, 3);
}

}  // namespace rrdma::base_test
