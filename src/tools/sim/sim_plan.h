// The command line options of `rrdma sim`, and the plan of a simulated world that they describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/plan.h"

namespace rrdma::tools {

struct SimOptions {
  std::uint32_t hosts = 2;
  std::uint32_t qps = 1;
  std::string type = "rc";
  std::string workload;  // empty: chosen by the other options
  std::uint64_t size = 65536;
  std::uint32_t mtu = 4096;
  std::uint32_t depth = 64;
  bool both_ways = false;
  std::string seconds = "0.05";
  std::string bandwidth = "100G";
  std::string rtt = "10us";
  std::uint32_t queue = 1024 * 1024;  // bytes, at the switch
  std::string fault;
  std::vector<std::string> faults;  // with their times
  std::string scenario;             // empty: an exchange whose guarantees are checked
  std::uint32_t flows = 0;
  std::uint32_t tcp = 0;
  std::string congestion = "auto";
  bool strangers = false;
  bool strict = false;
  std::string svg;
  bool bandwidth_given = false, rtt_given = false, seconds_given = false, queue_given = false;
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  bool seed_given = false;
  bool seeds_given = false;
  bool shape_given = false;  // an option that describes the world was given
  std::uint32_t trace = 40;
  std::string pcap;
  bool json = false;

  [[nodiscard]] bool random() const {
    return workload == "random" || (workload.empty() && !shape_given && (seed_given || seeds_given));
  }
};

// The cable properties given on the command line; 0 if not given.
struct CableOptions {
  std::uint64_t megabits_per_second = 0;
  Duration rtt;
  Duration time;
};
[[nodiscard]] Result<CableOptions, std::string> cable_of(const SimOptions& options);

// The world for one seed. The error is a sentence about the wrong option.
[[nodiscard]] Result<sim::Plan, std::string> plan_for(const SimOptions& options, std::uint64_t seed);

}  // namespace rrdma::tools
