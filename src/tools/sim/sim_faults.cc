#include "tools/sim/sim_faults.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/result_try.h"
#include "faults/rule.h"
#include "link/sim/sim_network.h"
#include "tools/fault/fault_plan.h"

namespace rrdma::tools {
namespace {

using faults::Rule;
using HostChoice = std::optional<std::uint32_t>;  // none: all

constexpr std::uint32_t kAlways = 1'000'000;  // ppm
constexpr std::uint32_t kHarshPpm = 50'000;

Result<HostChoice, std::string> host_named(const std::string& name, std::size_t hosts) {
  if (name.empty()) return HostChoice{};
  std::uint32_t number = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + 1, last, number);
  if (name[0] == 'h' && error == std::errc() && end == last && number < hosts) return HostChoice{number};
  return Failure{"'" + name + "' is no host of this world: they are h0 to h" + std::to_string(hosts - 1) +
                 "."};
}

// One choice for each peer that a rule names, or one choice of all hosts if it names none.
Result<std::vector<HostChoice>, std::string> hosts_at(const std::vector<wire::Gid>& addresses,
                                                      std::size_t hosts) {
  std::vector<HostChoice> chosen;
  if (addresses.empty()) chosen.emplace_back();
  for (const wire::Gid& address : addresses) {
    for (std::uint32_t host = 0; host < hosts; ++host) {
      if (address == link::SimNetwork::ipv4_gid(host)) chosen.emplace_back(host);
    }
  }
  if (chosen.size() == std::max<std::size_t>(1, addresses.size())) return chosen;
  return Failure{std::string("'peer' is no address of this world: the hosts have 10.0.0.1 and on.")};
}

bool cuts(const Rule& rule) {
  return rule.kind == faults::Kind::kPortDown ||
         (rule.kind == faults::Kind::kNetwork && rule.network.drop_ppm == kAlways);
}

// Cuts the links between the selected hosts, in both directions unless one is given.
void cut(const sim::FaultPhase& phase, faults::Direction direction, sim::Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  for (std::uint32_t from = 0; from < hosts; ++from) {
    for (std::uint32_t to = 0; to < hosts; ++to) {
      if (from == to || phase.from.value_or(from) != from || phase.to.value_or(to) != to) continue;
      if (direction != faults::Direction::kIn) plan.partitions.push_back({from, to, phase.begin, phase.end});
      if (direction != faults::Direction::kOut) plan.partitions.push_back({to, from, phase.begin, phase.end});
    }
  }
}

Result<void, std::string> add_phase(const Rule& rule, const sim::FaultPhase& phase, sim::Plan& plan) {
  if (cuts(rule)) {
    cut(phase, rule.direction, plan);
    return {};
  }
  if (rule.kind == faults::Kind::kFreeze) {
    const Duration time = rule.lasts.ns == 0 ? plan.turbulence_max : rule.lasts;
    for (std::uint32_t host = 0; host < plan.hosts.size(); ++host) {
      if (phase.from.value_or(host) == host) plan.pauses.push_back({host, phase.begin, time});
    }
    return {};
  }
  if (rule.kind != faults::Kind::kNetwork)
    return Failure{"'" + rule.text +
                   "' cannot be simulated: there are no programs in a simulated world; net=, port=down and "
                   "freeze can."};
  using faults::Direction;
  if (rule.direction != Direction::kIn) plan.phases.push_back(phase);
  if (rule.direction == Direction::kIn || rule.direction == Direction::kBoth) {
    sim::FaultPhase back = phase;
    std::swap(back.from, back.to);
    plan.phases.push_back(back);
  }
  plan.harsh = plan.harsh || is_harsh(rule.network);
  plan.packet_lifetime = plan.packet_lifetime + added_lifetime(rule.network);
  return {};
}

Result<void, std::string> add_rule(const Rule& rule, sim::Plan& plan) {
  const auto from = host_named(rule.device, plan.hosts.size());
  RRDMA_TRY(from);
  const auto peers = hosts_at(rule.peers, plan.hosts.size());
  RRDMA_TRY(peers);
  if (rule.pid != 0 || rule.qpn)
    return Failure{"'" + rule.text + "' cannot be simulated: leave out pid and qp."};
  const Instant begin = Instant{} + rule.after;
  for (const HostChoice& to : *peers) {
    const sim::FaultPhase phase{.from = *from,
                                .to = to,
                                .begin = begin,
                                .end = rule.lasts.ns == 0 ? kNever : begin + rule.lasts,
                                .faults = rule.network};
    if (auto added = add_phase(rule, phase, plan); !added) return added;
  }
  return {};
}

}  // namespace

Duration added_lifetime(const link::FaultSpec& faults) {
  // The longest delay of a packet on a slow cable: behind a full queue.
  const Duration waits = faults.rate_kbps != 0
                             ? link::time_on_cable(faults, link::CableProperties{}.queue_octets) * 2
                             : Duration{};
  return faults.delay * 2 + waits;
}

bool is_harsh(const link::FaultSpec& faults) {
  return faults.drop_ppm + faults.corrupt_ppm > kHarshPpm || faults.mtu != 0 || faults.rate_kbps != 0;
}

Result<void, std::string> add_faults(const std::vector<std::string>& words, sim::Plan& plan) {
  for (const std::string& word : words) {
    std::vector<std::string> lines = {word};
    if (word.find('=') == std::string::npos && !word.starts_with("freeze")) {
      auto read = read_fault_plan(word);
      RRDMA_TRY(read);
      lines = std::move(*read);
    }
    for (const std::string& line : lines) {
      const auto rule = faults::parse_rule(line);
      RRDMA_TRY(rule);
      if (auto added = add_rule(*rule, plan); !added) return added;
    }
  }
  return {};
}

}  // namespace rrdma::tools
