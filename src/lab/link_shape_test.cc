#include "lab/link_shape.h"

#include <gtest/gtest.h>

namespace rrdma::tools::link_shape_test {

LinkShape shape_of(std::string_view name, std::string_view text) {
  LinkShape shape;
  const auto set = set_property(shape, name, text);
  EXPECT_TRUE(set.ok()) << name << "=" << text;
  return shape;
}

std::string problem_of(std::string_view name, std::string_view text) {
  LinkShape shape;
  const auto set = set_property(shape, name, text);
  EXPECT_FALSE(set.ok()) << name << "=" << text;
  return set.ok() ? "" : set.error();
}

TEST(LinkShape, RatesAreReadAsTheyAreWrittenInTheField) {
  for (const char* text : {"100M", "100m", "100Mbit", "100mbit", "0.1G", "100Mb/s", "100Mbit/s", "100000k"})
    EXPECT_EQ(shape_of("rate", text).rate_kbps, 100'000u) << text;
  EXPECT_EQ(shape_of("rate", "40Gbit").rate_kbps, 40'000'000u);
  EXPECT_EQ(shape_of("rate", "1T").rate_kbps, 1'000'000'000u);
  for (const char* wrong : {"", "fast", "100", "100bit", "0M", "-1M", "1 G", "100Mbps", "100MB"})
    EXPECT_NE(problem_of("rate", wrong).find("is no rate: write bits in a second"), std::string::npos);
}

TEST(LinkShape, OtherMeasuresAreReadOrRefusedWithASentence) {
  EXPECT_EQ(shape_of("delay", "20us").delay.ns, 20'000);
  EXPECT_EQ(shape_of("loss", "0.1%").loss_ppm, 1000u);
  EXPECT_EQ(shape_of("queue", "200").queue, 200u);
  EXPECT_EQ(shape_of("mtu", "1500").mtu, 1500u);
  EXPECT_TRUE(shape_of("ecn", "true").ecn);
  EXPECT_NE(problem_of("delay", "20").find("is no time"), std::string::npos);
  EXPECT_NE(problem_of("delay", "2000s").find("too long a delay"), std::string::npos);
  EXPECT_NE(problem_of("loss", "1").find("is no chance"), std::string::npos);
  EXPECT_NE(problem_of("loss", "101%").find("is no chance"), std::string::npos);
  EXPECT_NE(problem_of("queue", "0").find("from 1 to 65535"), std::string::npos);
  EXPECT_NE(problem_of("mtu", "1000").find("from 1280 to 65535"), std::string::npos);
  EXPECT_NE(problem_of("ecn", "yes").find("true or false"), std::string::npos);
  EXPECT_NE(problem_of("jitter", "1us").find("is no property of a link"), std::string::npos);
}

TEST(LinkShape, MarksNeedAChance) {
  EXPECT_TRUE(check_shape({}).ok());
  EXPECT_TRUE(check_shape({.loss_ppm = 10, .ecn = true}).ok());
  EXPECT_FALSE(check_shape({.ecn = true}).ok());
}

TEST(LinkShape, IsDescribedInTheSameWords) {
  EXPECT_EQ(describe({}), "");
  EXPECT_EQ(describe({.rate_kbps = 10'000'000, .delay = microseconds(20), .loss_ppm = 1000, .queue = 50}),
            "10G 20us loss 0.1% queue 50");
  EXPECT_EQ(describe({.loss_ppm = 10'000, .ecn = true, .mtu = 1500}), "ecn 1% mtu 1500");
}

}  // namespace rrdma::tools::link_shape_test
