#include "lab/link_faults.h"

#include <map>
#include <utility>

#include "link/fault_spec.h"

namespace rrdma::tools {
namespace {

constexpr std::uint64_t kMillion = 1'000'000;

// The probability that at least one of two independent events occurs.
std::uint32_t either(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(kMillion - (kMillion - a) * (kMillion - b) / kMillion);
}

void pass_link(const LinkShape& shape, link::FaultSpec& way) {
  way.delay = way.delay + shape.delay;
  std::uint32_t& chance = shape.ecn ? way.ecn_ppm : way.drop_ppm;
  chance = either(chance, shape.loss_ppm);
}

// If several shortest paths exist, uses the first.
link::FaultSpec way_to(const Topology& topology, const std::set<std::size_t>& cut, std::size_t from,
                       std::size_t host_link) {
  link::FaultSpec way;
  std::size_t node = from;
  for (std::size_t left = topology.links.size(); left-- > 0;) {
    const auto hops = next_hops(topology, cut, node, host_link);
    if (hops.empty()) break;
    const LabLink& link = topology.links[hops[0]];
    pass_link(link.shape, way);
    node = link.a == node ? link.b : link.a;
  }
  pass_link(topology.links[host_link].shape, way);
  return way;
}

}  // namespace

std::string link_faults(const Topology& topology, const std::set<std::size_t>& cut, std::size_t host) {
  std::map<std::string, std::string> peers;  // by the faults on the path to them
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LabLink& link = topology.links[i];
    for (const bool second : {false, true}) {
      const std::size_t node = second ? link.b : link.a;
      if (node == host || !topology.nodes[node].is_host) continue;
      const link::FaultSpec way = way_to(topology, cut, host, i);
      if (!way.any()) continue;
      std::string& list = peers[link::emit_fault_spec(way)];
      for (const bool ipv6 : {false, true}) list += (list.empty() ? "" : ",") + address_of(i, second, ipv6);
    }
  }
  std::string rules;
  for (const auto& [spec, list] : peers) rules += (rules.empty() ? "net=" : ";net=") + spec + " peer=" + list;
  return rules;
}

}  // namespace rrdma::tools
