#include "wire/introduction_mad.h"

#include <gtest/gtest.h>

namespace rrdma::wire::introduction_mad_test {

TEST(IntroductionMad, SaysWhatItWasTold) {
  for (const bool answer : {false, true}) {
    const Introduction told{
        .answer = answer, .transaction_id = 0x0123456789abcdef, .features = 5, .epoch = 77};
    const MadBuffer mad = emit_introduction(told);
    EXPECT_TRUE(is_introduction(mad));
    const auto heard = parse_introduction(mad);
    ASSERT_TRUE(heard.ok());
    EXPECT_EQ(*heard, told);
  }
}

// The kernel's rxe answers an unknown class with our own bytes and a status.
TEST(IntroductionMad, AStatusIsAllThatAStrangerSays) {
  MadBuffer mad = emit_introduction({.transaction_id = 42, .features = 1, .epoch = 9});
  mad[3] = static_cast<std::uint8_t>(MadMethod::kGetResponse);
  mad[5] = 0x0c;
  const auto heard = parse_introduction(mad);
  ASSERT_TRUE(heard.ok());
  EXPECT_TRUE(heard->answer);
  EXPECT_EQ(heard->status, 0x000c);
  EXPECT_EQ(heard->transaction_id, 42u);
  EXPECT_EQ(heard->features, 0u);
  EXPECT_EQ(heard->epoch, 0u);
}

TEST(IntroductionMad, RefusesWhatIsNotOurs) {
  const MadBuffer good = emit_introduction({.transaction_id = 1});
  EXPECT_FALSE(parse_introduction(Octets(good).first(255)).ok());
  for (const std::size_t octet : {0u, 1u, 2u, 3u, 17u, 37u, 38u, 39u}) {
    MadBuffer mad = good;
    mad[octet] ^= 0x55;
    EXPECT_FALSE(parse_introduction(mad).ok()) << octet;
  }
  MadBuffer other = good;
  other[1] = 0x07;
  EXPECT_FALSE(is_introduction(other));
}

}  // namespace rrdma::wire::introduction_mad_test
