#include "link/fault_spec.h"

#include <gtest/gtest.h>

namespace rrdma::link::fault_spec_test {

TEST(FaultSpec, ReadsTheExampleOfTheDesign) {
  const auto spec = parse_fault_spec("drop=1%,dup=0.1%,reorder=2%,corrupt=0.1%,delay=50us±20us,seed=7");
  ASSERT_TRUE(spec.ok()) << spec.error();
  EXPECT_EQ(spec->drop_ppm, 10'000u);
  EXPECT_EQ(spec->duplicate_ppm, 1'000u);
  EXPECT_EQ(spec->reorder_ppm, 20'000u);
  EXPECT_EQ(spec->corrupt_ppm, 1'000u);
  EXPECT_EQ(spec->delay, microseconds(50));
  EXPECT_EQ(spec->delay_spread, microseconds(20));
  EXPECT_EQ(spec->seed, 7u);
}

TEST(FaultSpec, WritesWhatItReads) {
  for (const char* text :
       {"", "drop=0.0001%", "drop=100%", "ecn=3.25%,seed=18446744073709551615", "delay=1.5ms",
        "delay=7ns+-7ns,dup=12ppm", "drop=1%,burst=8", "reorder=5%,depth=64", "burst=1000,depth=1024"}) {
    const auto spec = parse_fault_spec(text);
    ASSERT_TRUE(spec.ok()) << text << ": " << spec.error();
    const auto again = parse_fault_spec(emit_fault_spec(*spec));
    ASSERT_TRUE(again.ok()) << again.error();
    EXPECT_EQ(*again, *spec) << text;
  }
  EXPECT_FALSE(parse_fault_spec("")->any());
  EXPECT_EQ(parse_fault_spec("drop=12ppm")->drop_ppm, 12u);
  EXPECT_EQ(parse_fault_spec("delay=1.5ms")->delay, microseconds(1500));
}

TEST(FaultSpec, RefusesWithASentence) {
  for (const char* text : {"drop",
                           "drop=",
                           "drop=1",
                           "drop=101%",
                           "drop=0.00001%",
                           "drop=-1%",
                           "drop=1.2.3%",
                           "loss=1%",
                           "drop=1%,",
                           ",",
                           "delay=5",
                           "delay=us",
                           "delay=10us±20us",
                           "delay=10us+-",
                           "burst=0",
                           "burst=1001",
                           "burst=8%",
                           "depth=",
                           "depth=0",
                           "depth=1025",
                           "depth=-1",
                           "seed=",
                           "seed=x",
                           "seed=-1",
                           "seed=18446744073709551616",
                           "delay=99999999999999999999s",
                           "drop=99999999999999999999999%"}) {
    const auto spec = parse_fault_spec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_TRUE(spec.error().ends_with(".")) << spec.error();
    EXPECT_GT(spec.error().size(), 20u);
  }
}

TEST(FaultSpec, RatesAndSizes) {
  const auto spec = parse_fault_spec("rate=2.5G,mtu=1024");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->rate_kbps, 2'500'000u);
  EXPECT_EQ(spec->mtu, 1024u);
  EXPECT_EQ(*parse_fault_spec(emit_fault_spec(*spec)), *spec);
  for (const char* wrong : {"rate=0M", "rate=5", "mtu=0", "mtu=5000"})
    EXPECT_FALSE(parse_fault_spec(wrong).ok()) << wrong;
}

}  // namespace rrdma::link::fault_spec_test
