#include "lab/link_faults.h"

#include <gtest/gtest.h>

namespace rrdma::tools::link_faults_test {

Topology star(const LinkShape& shape) { return *make_preset("star", {.hosts = 3}, shape); }

TEST(LinkFaults, TheLinksOfTheWayAddUp) {
  const Topology lab = star({.delay = microseconds(20), .loss_ppm = 10'000});
  // Two links to each host: 40 us in total, and a loss of 1 % twice.
  EXPECT_EQ(link_faults(lab, {}, lab.find("h1")),
            "net=drop=1.99%,delay=40us,seed=1 peer=10.90.0.4,fd90::104,10.90.0.6,fd90::106");
}

TEST(LinkFaults, MarksInThePlaceOfLosses) {
  const Topology lab = star({.loss_ppm = 10'000, .ecn = true});
  EXPECT_EQ(link_faults(lab, {}, lab.find("h1")).find("net=ecn=1.99%,seed=1 peer="), 0u);
}

TEST(LinkFaults, PeersDifferByTheirWays) {
  Topology lab = star({});
  EXPECT_EQ(link_faults(lab, {}, lab.find("h1")), "");
  lab.links[1].shape.delay = milliseconds(1);  // of h2
  EXPECT_EQ(link_faults(lab, {}, lab.find("h1")), "net=delay=1ms,seed=1 peer=10.90.0.4,fd90::104");
  EXPECT_EQ(link_faults(lab, {}, lab.find("h3")), "net=delay=1ms,seed=1 peer=10.90.0.4,fd90::104");
  EXPECT_EQ(link_faults(lab, {}, lab.find("h2")),
            "net=delay=1ms,seed=1 peer=10.90.0.2,fd90::102,10.90.0.6,fd90::106");
}

TEST(LinkFaults, SpinesAreOnTheWay) {
  const Topology lab = *make_preset("leaf-spine", {.hosts = 8}, {.delay = microseconds(5)});
  const std::string rules = link_faults(lab, {}, lab.find("h1"));
  EXPECT_NE(rules.find("delay=10us"), std::string::npos) << rules;  // within the leaf
  EXPECT_NE(rules.find("delay=20us"), std::string::npos) << rules;  // over a spine
}

}  // namespace rrdma::tools::link_faults_test
