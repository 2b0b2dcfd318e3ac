// Scenario: how congestion control behaves where many send to one: so many flows, each from a host of its own over a
// cable of its own, to one host, whose cable is the bottleneck, and its queue the one that fills. With TCP beside them
// (CubicFlow), if wanted. What the receiving host got is measured after a time to settle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/instant.h"
#include "link/fault_spec.h"
#include "transport/recovery/congestion.h"

namespace rrdma::sim {

struct ScenarioPlan {
  std::uint32_t flows = 2;
  std::uint32_t tcp_flows = 0;
  std::uint64_t megabits_per_second = 40'000;  // of every cable
  Duration rtt = microseconds(50);             // of the empty network
  std::uint32_t queue_octets = 1024 * 1024;    // at the bottleneck
  bool ecn = true;                             // the queue marks from a quarter on
  Duration stagger;                            // between the beginnings of two flows
  Duration settle = milliseconds(10);          // before anything is counted
  Duration time = milliseconds(40);            // that is counted
  link::FaultSpec faults;                      // of every cable, in both directions
  transport::CongestionKind congestion = transport::CongestionKind::kAutomatic;
  bool strangers = false;  // the ends do not know that they are of one kind
  bool strict = false;
  Duration pause;                          // in which the receiving host has no processor
  Duration pause_every = milliseconds(5);  // from the beginning of one to that of the next
  std::uint64_t seed = 1;
};

struct ScenarioReport {
  struct Flow {
    bool tcp = false;
    std::uint64_t octets = 0;             // that were counted
    std::vector<std::uint64_t> timeline;  // octets in each slice, from the beginning
  };
  std::vector<Flow> flows;
  Duration slice;
  std::vector<std::uint64_t> queue;  // octets at the end of each slice
  std::uint64_t queue_mean = 0;      // octets, sampled while it was counted
  std::uint64_t queue_most = 0;
  std::uint64_t queue_drops = 0;  // that found the queue full, from the beginning
  std::uint64_t marks = 0;
  std::uint64_t packets = 0;  // of ours
  std::uint64_t resent = 0;
  std::uint64_t probes = 0;
  double utilisation = 0;  // payload of all flows, of what the cable can carry of it
  double fairness = 0;     // Jain's index over our flows: 1 is fair
  double tcp_share = 0;    // of all octets
};

ScenarioReport run_scenario(const ScenarioPlan& plan);

}  // namespace rrdma::sim
