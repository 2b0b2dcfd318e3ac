// Scenario: measures congestion control where many hosts send to one. Each flow has a host and a cable of its
// own. The receiver's cable is the bottleneck, and its queue fills. TCP flows (CubicFlow) may compete. The
// receiver's goodput is measured after a time to settle.
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
  Duration stagger;                            // between the starts of two flows
  Duration settle = milliseconds(10);          // before measuring
  Duration time = milliseconds(40);            // of the measurement
  link::FaultSpec faults;                      // of every cable, in both directions
  transport::CongestionKind congestion = transport::CongestionKind::kAutomatic;
  bool strangers = false;  // the ends do not know that both are RRDMA
  bool strict = false;
  Duration pause;                          // during which the receiving host gets no CPU
  Duration pause_every = milliseconds(5);  // from the start of one pause to the start of the next
  std::uint64_t seed = 1;
};

struct ScenarioReport {
  struct Flow {
    bool tcp = false;
    std::uint64_t octets = 0;             // during the measurement
    std::vector<std::uint64_t> timeline;  // bytes in each slice, from the beginning
  };
  std::vector<Flow> flows;
  Duration slice;
  std::vector<std::uint64_t> queue;  // bytes at the end of each slice
  std::uint64_t queue_mean = 0;      // bytes, sampled during the measurement
  std::uint64_t queue_most = 0;
  std::uint64_t queue_drops = 0;  // packets that found the queue full, from the beginning
  std::uint64_t marks = 0;
  std::uint64_t packets = 0;  // of our flows
  std::uint64_t resent = 0;
  std::uint64_t probes = 0;
  double utilisation = 0;  // payload of all flows, relative to what the cable can carry
  double fairness = 0;     // Jain's index over our flows: 1 is fair
  double tcp_share = 0;    // of all bytes
};

ScenarioReport run_scenario(const ScenarioPlan& plan);

}  // namespace rrdma::sim
