#include "tools/sim/sim_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/result_try.h"
#include "link/fault_spec.h"
#include "tools/sim/sim_faults.h"

namespace rrdma::tools {
namespace {

constexpr std::uint32_t kHostsMax = 256;
constexpr std::uint32_t kQpsMax = 4096;
constexpr std::uint64_t kSizeMax = 8 * 1024 * 1024;
constexpr std::uint64_t kArenasMax = std::uint64_t{4} << 30;

// "25G", "400M": megabits per second. Returns 0 for an invalid rate.
std::uint64_t megabits(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || value > 1'000'000) return 0;
  if (unit == "G" || unit == "Gb/s" || unit == "Gbps") return value * 1000;
  if (unit == "M" || unit == "Mb/s" || unit == "Mbps") return value;
  return 0;
}

Result<sim::Mix, std::string> mix_of(const std::string& workload, transport::QpType type) {
  using sim::Operation;
  sim::Mix mix{};
  const auto weigh = [&mix](Operation operation, std::uint8_t weight) {
    mix[static_cast<std::size_t>(operation)] = weight;
  };
  const bool rc = type == transport::QpType::kRc;
  if (workload == "send") {
    weigh(Operation::kSend, 1);
  } else if (workload == "write" && type != transport::QpType::kUd) {
    weigh(Operation::kWrite, 1);
  } else if (workload == "read" && rc) {
    weigh(Operation::kRead, 1);
  } else if (workload == "atomic" && rc) {
    weigh(Operation::kFetchAdd, 3);
    weigh(Operation::kCompareSwap, 1);
  } else if (workload == "mix") {
    weigh(Operation::kSend, 4);
    weigh(Operation::kSendImmediate, 1);
    if (type != transport::QpType::kUd) weigh(Operation::kWrite, 4);
    if (rc) {
      for (const auto operation : {Operation::kRead, Operation::kWriteImmediate}) weigh(operation, 3);
      for (const auto operation :
           {Operation::kFetchAdd, Operation::kCompareSwap, Operation::kFlush, Operation::kAtomicWrite,
            Operation::kWriteReadBack, Operation::kReadThenWrite, Operation::kReadThenSend}) {
        weigh(operation, 1);
      }
    }
  } else {
    return Failure{"'" + workload +
                   "' is no workload of this QP type: known are send, write (RC, UC), read and atomic (RC), "
                   "mix and random"};
  }
  return mix;
}

Result<transport::QpType, std::string> type_of(const std::string& name) {
  if (name == "rc") return transport::QpType::kRc;
  if (name == "uc") return transport::QpType::kUc;
  if (name == "ud") return transport::QpType::kUd;
  return Failure{"'" + name + "' is no QP type: give rc, uc or ud"};
}

Result<sim::TrafficPlan, std::string> traffic_for(const SimOptions& options, const sim::Plan& plan) {
  sim::TrafficPlan traffic;
  const auto type = type_of(options.type);
  RRDMA_TRY(type);
  traffic.type = *type;
  const auto mix = mix_of(options.workload.empty() ? "mix" : options.workload, *type);
  RRDMA_TRY(mix);
  traffic.mix = *mix;
  if (!std::has_single_bit(options.mtu) || options.mtu < 256 || options.mtu > 4096) {
    return Failure{std::string("--mtu is 256, 512, 1024, 2048 or 4096")};
  }
  if (options.size > (*type == transport::QpType::kUd ? options.mtu : kSizeMax)) {
    return Failure{"--size is at most " +
                   std::to_string(*type == transport::QpType::kUd ? options.mtu : kSizeMax) + " here"};
  }
  traffic.mtu_code = static_cast<std::uint8_t>(std::bit_width(options.mtu) - 8);
  traffic.both_ways = options.both_ways;
  traffic.octets_max = static_cast<std::uint32_t>(options.size);
  traffic.octets_min = options.workload.empty() || options.workload == "mix" ? 0 : traffic.octets_max;
  traffic.send_entries = options.depth;
  const bool receives = traffic.mix[static_cast<std::size_t>(sim::Operation::kSend)] != 0;
  traffic.receive_entries = receives ? std::min(options.depth, 32u) : 1;
  traffic.burst_max = options.depth;
  traffic.think_max = {};
  traffic.max_reads = traffic.max_destination_reads = 16;
  traffic.unsignaled_ppm = traffic.inline_ppm = traffic.fence_ppm = 0;
  traffic.messages = 0xfffffff0;
  // Longer than the longest round trip.
  const std::int64_t round_trip = plan.packet_lifetime.ns * 2;
  traffic.timeout = 10;
  while ((std::int64_t{4096} << traffic.timeout) < round_trip) ++traffic.timeout;
  return traffic;
}

Result<Duration, std::string> time_of(const std::string& seconds) {
  const bool bare = !seconds.empty() && seconds.find_first_not_of("0123456789.") == std::string::npos;
  const auto time = link::parse_duration(bare ? seconds + "s" : seconds);
  if (!time || time->ns == 0)
    return Failure{"'" + seconds + "' is no time to run: write for example 2 or 0.5"};
  return *time;
}

}  // namespace

Result<CableOptions, std::string> cable_of(const SimOptions& options) {
  CableOptions cable;
  if (options.bandwidth_given) {
    cable.megabits_per_second = megabits(options.bandwidth);
    if (cable.megabits_per_second == 0)
      return Failure{"'" + options.bandwidth + "' is no bandwidth: write for example 25G or 400M"};
  }
  if (options.rtt_given) {
    const auto rtt = link::parse_duration(options.rtt);
    RRDMA_TRY(rtt);
    cable.rtt = *rtt;
  }
  if (options.seconds_given) {
    const auto time = time_of(options.seconds);
    RRDMA_TRY(time);
    cable.time = *time;
  }
  return cable;
}

Result<sim::Plan, std::string> plan_for(const SimOptions& options, std::uint64_t seed) {
  if (options.random()) {
    if (options.shape_given)
      return Failure{
          std::string("with --workload random the seed decides everything: leave the other options out")};
    return sim::plan_of(seed);
  }
  sim::Plan plan;
  plan.seed = seed;
  if (options.hosts < 2 || options.hosts > kHostsMax)
    return Failure{"--hosts is 2 to " + std::to_string(kHostsMax)};
  if (options.qps < 1 || options.qps > kQpsMax) return Failure{"--qps is 1 to " + std::to_string(kQpsMax)};
  if (options.depth < 4 || options.depth > 4096) return Failure{std::string("--depth is 4 to 4096")};
  const std::uint64_t rate = megabits(options.bandwidth);
  if (rate == 0) return Failure{"'" + options.bandwidth + "' is no bandwidth: write for example 25G or 400M"};
  const auto rtt = link::parse_duration(options.rtt);
  RRDMA_TRY(rtt);
  const auto time = time_of(options.seconds);
  RRDMA_TRY(time);
  const auto fault = link::parse_fault_spec(options.fault);
  RRDMA_TRY(fault);

  sim::HostConfig host;
  host.network.up.megabits_per_second = host.network.down.megabits_per_second = rate;
  host.network.up.latency = host.network.down.latency = *rtt / 4;
  host.network.down.queue_octets = std::max(options.queue, 2 * options.mtu);
  host.network.down.ecn_octets = host.network.down.queue_octets / 4;
  const auto congestion = transport::parse_congestion_kind(options.congestion);
  if (!congestion)
    return Failure{"'" + options.congestion +
                   "' is no congestion control: known are auto, loss, swift, dcqcn, fixed and none"};
  host.engine.congestion = *congestion;
  host.engine.strict = options.strict;
  plan.hosts.assign(options.hosts, host);
  plan.faults = *fault;
  plan.harsh = is_harsh(*fault);
  plan.run_time = plan.turbulence_max = *time;
  const auto drain = nanoseconds(static_cast<std::int64_t>(
      (std::uint64_t{host.network.up.queue_octets} + host.network.down.queue_octets) * 8'000 / rate));
  plan.packet_lifetime = *rtt + drain + added_lifetime(*fault) + milliseconds(1);
  if (auto added = add_faults(options.faults, plan); !added) return Failure{"--faults: " + added.error()};
  auto traffic = traffic_for(options, plan);
  RRDMA_TRY(traffic);
  // Every request in flight has its own memory at both ends.
  const std::uint64_t octets =
      (std::uint64_t{options.size} + 300) * options.qps * 2 * (3 * 8 + traffic->receive_entries);
  if (octets > kArenasMax) {
    return Failure{"the messages under way would take " + std::to_string(octets >> 30) +
                   " GiB of memory: give fewer --qps or a smaller --size"};
  }
  for (std::uint32_t i = 0; i < options.qps; ++i) {
    traffic->features_a = traffic->features_b = options.strangers ? 0 : objects::kOwnFeatures;
    traffic->host_a = i % options.hosts;
    traffic->host_b = (i + 1) % options.hosts;
    plan.traffic.push_back(*traffic);
  }
  return plan;
}

}  // namespace rrdma::tools
