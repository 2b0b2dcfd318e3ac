#include "faults/rule.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace rrdma::faults::rule_test {

Rule rule(std::string_view text) {
  auto parsed = parse_rule(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << (parsed.ok() ? "" : parsed.error());
  return parsed.ok() ? *parsed : Rule{};
}

TEST(Rule, ReadsVerbs) {
  const Rule third = rule("verb=ibv_reg_mr:ENOMEM:3 device=rrdma1");
  EXPECT_EQ(third.kind, Kind::kVerb);
  EXPECT_EQ(third.function, "ibv_reg_mr");
  EXPECT_EQ(third.error, ENOMEM);
  EXPECT_EQ(third.nth, 3u);
  EXPECT_EQ(third.device, "rrdma1");
  EXPECT_EQ(rule("slow=ibv_create_qp:50ms").delay.ns, 50'000'000);
}

TEST(Rule, ReadsTheRest) {
  EXPECT_EQ(rule("status=IBV_WC_RETRY_EXC_ERR:5 qp=0x11").error, 12);
  EXPECT_EQ(rule("status=RETRY_EXC_ERR qp=0x11").qpn, 0x11u);
  EXPECT_EQ(rule("port=down device=rrdma1 after=2s for=100ms").lasts.ns, 100'000'000);
  EXPECT_EQ(rule("net=drop=1%,delay=50us peer=10.0.0.2 seed=7").network.drop_ppm, 10'000u);
  EXPECT_EQ(rule("net=drop=1% seed=7").network.seed, 7u);
  EXPECT_EQ(rule("net=drop=1% peer=fd00::2").peers.at(0).octets[15], 2);
  EXPECT_EQ(rule("cm=drop:REQ").error, 0x10);
  EXPECT_EQ(rule("cm=reject:28").error, 28);
  EXPECT_EQ(rule("freeze  pid=12").pid, 12u);
}

TEST(Rule, CountsAsItSays) {
  const auto injected = [](const Rule& of) {
    std::vector<int> which;
    for (int n = 1; n <= 12; ++n) {
      if (of.injects(static_cast<std::uint64_t>(n))) which.push_back(n);
    }
    return which;
  };
  EXPECT_EQ(injected(rule("verb=ibv_reg_mr:EIO")), (std::vector{1}));
  EXPECT_EQ(injected(rule("verb=ibv_reg_mr:EIO:4")), (std::vector{4}));
  EXPECT_EQ(injected(rule("verb=ibv_reg_mr:EIO nth=2 every=5")), (std::vector{2, 7, 12}));
  EXPECT_EQ(injected(rule("verb=ibv_reg_mr:EIO nth=2 every=5 count=2")), (std::vector{2, 7}));
  EXPECT_EQ(injected(rule("verb=ibv_reg_mr:EIO nth=3 count=3")), (std::vector{3, 4, 5}));
}

TEST(Rule, RefusesWithASentence) {
  for (const char* text : {"",
                           " ",
                           "verb=",
                           "verb=ibv_reg_mr",
                           "verb=ibv_reg_mr:ENOSUCH",
                           "verb=ibv_nonsense:EIO",
                           "verb=ibv_reg_mr:EIO:0",
                           "slow=ibv_reg_mr:fast",
                           "status=SUCCESS",
                           "status=NONSENSE",
                           "port=sideways",
                           "net=",
                           "net=seed=3",
                           "cm=drop:FOO",
                           "cm=reject:0",
                           "cm=reject:70000",
                           "explode",
                           "freeze colour=red",
                           "freeze pid=0",
                           "freeze peer=nobody",
                           "freeze after=soon",
                           "freeze every=x"}) {
    const auto parsed = parse_rule(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(parsed.error().ends_with(".")) << parsed.error();
  }
}

TEST(Rules, AreNumberedAsTheyStand) {
  const auto rules = parse_rules("port=down;; verb=ibv_reg_mr:EIO\nfreeze for=1s;");
  ASSERT_TRUE(rules.ok());
  ASSERT_EQ(rules->size(), 3u);
  EXPECT_EQ((*rules)[2].number, 3u);
  EXPECT_FALSE(parse_rules("port=down;nonsense").ok());
}

TEST(Rule, WhatHappensToPortsAndQueues) {
  EXPECT_EQ(parse_rule("port=speed:25G")->speed_mbps, 25'000u);
  EXPECT_EQ(parse_rule("gid=add:192.0.2.7")->address, wire::gid_of_ipv4({192, 0, 2, 7}));
  EXPECT_EQ(parse_rule("gid=change:192.0.2.7")->kind, Kind::kGidChanged);
  EXPECT_EQ(parse_rule("cq=delay:10ms")->delay, milliseconds(10));
  for (const char* text : {"qp=rnr", "cq=delay:10ms", "gid=add:192.0.2.7", "port=speed:25G"})
    EXPECT_TRUE(parse_rule(text)->persists()) << text;
  for (const char* wrong :
       {"port=speed:x", "gid=add:", "cq=delay:", "qp=x", "port=x", "qp=rnr for=99999999s"})
    EXPECT_FALSE(parse_rule(wrong).ok()) << wrong;
}

TEST(Rule, Directions) {
  EXPECT_EQ(parse_rule("net=drop=1% direction=in")->direction, Direction::kIn);
  EXPECT_EQ(parse_rule("net=drop=1% direction=both")->direction, Direction::kBoth);
  for (const char* item : {"drop=1%", "dup=1%", "reorder=1%", "corrupt=1%", "ecn=1%", "delay=1ms+-1us",
                           "rate=1M", "mtu=512", "drop=1%,burst=3", "drop=100%"})
    EXPECT_TRUE(parse_rule(std::string("net=") + item + " direction=in").ok()) << item;
  for (const char* wrong : {"port=down direction=in", "net=drop=1% direction=up"})
    EXPECT_FALSE(parse_rule(wrong).ok()) << wrong;
}

TEST(Rule, SeveralPeers) {
  const auto rule = parse_rule("net=drop=1% peer=10.0.0.2,fd00::3");
  ASSERT_TRUE(rule.ok());
  EXPECT_TRUE(rule->concerns_peer(wire::gid_of_ipv4({10, 0, 0, 2})));
  EXPECT_FALSE(rule->concerns_peer(wire::gid_of_ipv4({10, 0, 0, 3})));
  EXPECT_TRUE(parse_rule("net=drop=1%")->concerns_peer(wire::gid_of_ipv4({10, 0, 0, 3})));
  EXPECT_FALSE(parse_rule("net=drop=1% peer=10.0.0.2,").ok());
}

// A selector that does not apply to the kind is refused: the fault would act in the wrong place.
TEST(Rule, SelectorsWithoutAMeaning) {
  for (const char* wrong : {"net=drop=1% qp=7", "port=down nth=2", "verb=ibv_reg_mr:EIO peer=10.0.0.2",
                            "cm=drop:REQ device=rrdma0", "srq=limit qp=3", "status=FATAL_ERR seed=2"}) {
    const auto parsed = parse_rule(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.error().find("means nothing to"), std::string::npos) << parsed.error();
  }
  for (const char* right :
       {"status=FATAL_ERR qp=7 peer=10.0.0.2 nth=3 device=rrdma0", "freeze pid=7 after=1s",
        "cm=reject:28 count=2 peer=10.0.0.2", "qp=rnr qp=7", "net=drop=1% seed=4"})
    EXPECT_TRUE(parse_rule(right).ok()) << right;
}

}  // namespace rrdma::faults::rule_test
