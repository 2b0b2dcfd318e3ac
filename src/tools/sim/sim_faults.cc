#include "tools/sim/sim_faults.h"

#include <charconv>
#include <optional>

#include "faults/rule.h"
#include "link/sim/sim_network.h"
#include "tools/fault/fault_plan.h"

namespace rrdma::tools {
namespace {

using faults::Kind;
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

Result<HostChoice, std::string> host_at(const std::optional<wire::Gid>& address, std::size_t hosts) {
  if (!address) return HostChoice{};
  for (std::uint32_t host = 0; host < hosts; ++host) {
    if (*address == link::SimNetwork::ipv4_gid(host)) return HostChoice{host};
  }
  return Failure{std::string("'peer' is no address of this world: the hosts have 10.0.0.1 and on.")};
}

bool cuts(const Rule& rule) {
  return rule.kind == Kind::kPortDown || (rule.kind == Kind::kNetwork && rule.network.drop_ppm == kAlways);
}

// Both ways, between all that are meant.
void cut(const sim::FaultPhase& phase, sim::Plan& plan) {
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  for (std::uint32_t from = 0; from < hosts; ++from) {
    for (std::uint32_t to = 0; to < hosts; ++to) {
      if (from == to || phase.from.value_or(from) != from || phase.to.value_or(to) != to) continue;
      plan.partitions.push_back({from, to, phase.begin, phase.end});
      plan.partitions.push_back({to, from, phase.begin, phase.end});
    }
  }
}

Result<void, std::string> add_rule(const Rule& rule, sim::Plan& plan) {
  const auto from = host_named(rule.device, plan.hosts.size());
  if (!from) return Failure{from.error()};
  const auto to = host_at(rule.peer, plan.hosts.size());
  if (!to) return Failure{to.error()};
  const Instant begin = Instant{} + rule.after;
  const sim::FaultPhase phase{.from = *from,
                              .to = *to,
                              .begin = begin,
                              .end = rule.lasts.ns == 0 ? kNever : begin + rule.lasts,
                              .faults = rule.network};
  if (rule.direction == faults::Direction::kIn || rule.pid != 0 || rule.qpn)
    return Failure{"'" + rule.text + "' cannot be simulated: leave out direction=in, pid and qp."};
  if (cuts(rule)) {
    cut(phase, plan);
    return {};
  }
  if (rule.kind == Kind::kFreeze) {
    const Duration time = rule.lasts.ns == 0 ? plan.turbulence_max : rule.lasts;
    for (std::uint32_t host = 0; host < plan.hosts.size(); ++host) {
      if (phase.from.value_or(host) == host) plan.pauses.push_back({host, begin, time});
    }
    return {};
  }
  if (rule.kind != Kind::kNetwork)
    return Failure{"'" + rule.text +
                   "' cannot be simulated: there are no programs in a simulated world; net=, port=down and "
                   "freeze can."};
  if (auto checked = check_simulated(rule.network); !checked) return checked;
  plan.phases.push_back(phase);
  plan.harsh = plan.harsh || rule.network.drop_ppm + rule.network.corrupt_ppm > kHarshPpm;
  plan.packet_lifetime = plan.packet_lifetime + rule.network.delay * 2;
  return {};
}

}  // namespace

Result<void, std::string> check_simulated(const link::FaultSpec& faults) {
  if (faults.rate_kbps == 0 && faults.mtu == 0) return {};
  return Failure{
      std::string("rate= and mtu= cannot be simulated: --bandwidth says how fast the cables are.")};
}

Result<void, std::string> add_faults(const std::vector<std::string>& words, sim::Plan& plan) {
  for (const std::string& word : words) {
    std::vector<std::string> lines = {word};
    if (word.find('=') == std::string::npos && !word.starts_with("freeze")) {
      auto read = read_fault_plan(word);
      if (!read) return Failure{read.error()};
      lines = std::move(*read);
    }
    for (const std::string& line : lines) {
      const auto rule = faults::parse_rule(line);
      if (!rule) return Failure{rule.error()};
      if (auto added = add_rule(*rule, plan); !added) return added;
    }
  }
  return {};
}

}  // namespace rrdma::tools
