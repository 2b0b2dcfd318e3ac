// Acceptance bounds of loss recovery and congestion control, in virtual time: the same on every machine.
#include "sim/scenario.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace rrdma::sim::scenario_test {

ScenarioReport shown(const char* name, const ScenarioPlan& plan) {
  const ScenarioReport report = run_scenario(plan);
  std::printf(
      "%-28s utilisation %.3f  fairness %.3f  TCP %.3f  queue %llu of %u KiB at most, %llu on average  "
      "drops %llu  marks %llu  resent %llu of %llu  probes %llu\n",
      name, report.utilisation, report.fairness, report.tcp_share,
      static_cast<unsigned long long>(report.queue_most >> 10), plan.queue_octets >> 10,
      static_cast<unsigned long long>(report.queue_mean >> 10),
      static_cast<unsigned long long>(report.queue_drops), static_cast<unsigned long long>(report.marks),
      static_cast<unsigned long long>(report.resent), static_cast<unsigned long long>(report.packets),
      static_cast<unsigned long long>(report.probes));
  return report;
}

ScenarioPlan lossy(const char* faults) {
  ScenarioPlan plan;
  plan.flows = 1;
  plan.faults = *link::parse_fault_spec(faults);
  return plan;
}

TEST(Scenario, AnEmptyCableIsFilled) { EXPECT_GE(shown("one flow", lossy("")).utilisation, 0.95); }

TEST(Scenario, LossesCostTheirShare) {
  const double whole = run_scenario(lossy("")).utilisation;
  EXPECT_GE(shown("0.1 % lost", lossy("drop=0.1%")).utilisation, 0.93 * whole);
  EXPECT_GE(shown("1 % lost", lossy("drop=1%")).utilisation, 0.75 * whole);
  EXPECT_GE(shown("5 % lost", lossy("drop=5%")).utilisation, 0.3 * whole);
  EXPECT_GE(shown("1 % lost in bursts of 8", lossy("drop=1%,burst=8")).utilisation, 0.6 * whole);
  EXPECT_GE(shown("5 % reordered by up to 64", lossy("reorder=5%,depth=64")).utilisation, 0.9 * whole);
}

TEST(Scenario, StrangersProfitToo) {
  ScenarioPlan plan = lossy("drop=1%");
  plan.strict = true;
  const double before = shown("1 % lost, strict", plan).utilisation;
  plan.strict = false;
  plan.strangers = true;
  EXPECT_GE(shown("1 % lost, strangers", plan).utilisation, 1.5 * before);
}

// A queue that others fill makes the round trip longer than the path. Late packets must still be told from
// lost ones.
TEST(Scenario, WhatIsLateBehindAQueueIsNotRepaired) {
  ScenarioPlan plan = lossy("reorder=5%,depth=64");
  plan.flows = 3;
  plan.congestion = transport::CongestionKind::kNone;
  plan.queue_octets = 4 * 1024 * 1024;
  plan.ecn = false;
  const ScenarioReport report = shown("reordered behind a queue", plan);
  EXPECT_LT(report.resent, report.packets / 100);
}

// A peer without CPU time answers late and has lost nothing. A probe asks, and the packets in flight are not
// resent.
TEST(Scenario, ASlowPeerIsNotTakenForALossyOne) {
  for (const bool strangers : {false, true}) {
    ScenarioPlan plan = lossy("");
    plan.strangers = strangers;
    plan.pause = milliseconds(2);
    const ScenarioReport report = shown(strangers ? "pauses, strangers" : "pauses", plan);
    EXPECT_GT(report.probes, 0u);
    EXPECT_EQ(report.resent, report.probes);
  }
}

TEST(Scenario, IncastSharesTheCable) {
  ScenarioPlan plan;
  plan.flows = 32;
  const ScenarioReport report = shown("incast 32:1", plan);
  EXPECT_GE(report.utilisation, 0.9);
  EXPECT_GE(report.fairness, 0.95);
  EXPECT_LT(report.queue_most, plan.queue_octets);
}

TEST(Scenario, DumbbellsAreFair) {
  for (const std::uint32_t flows : {2u, 16u}) {
    ScenarioPlan plan;
    plan.flows = flows;
    plan.stagger = microseconds(500);
    const ScenarioReport report = shown(flows == 2 ? "dumbbell of 2" : "dumbbell of 16", plan);
    EXPECT_GE(report.utilisation, 0.9);
    EXPECT_GE(report.fairness, 0.95);
    EXPECT_LT(report.queue_most, plan.queue_octets);
  }
}

// With equal numbers of TCP flows and ours, neither side gets less than a third.
TEST(Scenario, NeitherWeNorTcpStarve) {
  for (const std::uint32_t flows : {1u, 4u, 16u}) {
    ScenarioPlan plan;
    plan.flows = plan.tcp_flows = flows;
    plan.stagger = microseconds(500);
    const ScenarioReport report = shown("beside as many of TCP", plan);
    EXPECT_GE(report.utilisation, 0.9) << flows;
    EXPECT_GE(report.tcp_share, 1.0 / 3) << flows;
    EXPECT_LE(report.tcp_share, 2.0 / 3) << flows;
  }
}

TEST(Scenario, TheSameSeedIsTheSameRun) {
  ScenarioPlan plan = lossy("drop=1%,reorder=1%");
  plan.time = milliseconds(5);
  EXPECT_EQ(run_scenario(plan).flows[0].timeline, run_scenario(plan).flows[0].timeline);
}

}  // namespace rrdma::sim::scenario_test
