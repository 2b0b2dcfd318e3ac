#include "lab/topology.h"

#include <algorithm>
#include <deque>
#include <sstream>

#include "base/format.h"

namespace rrdma::tools {
namespace {

constexpr std::string_view kPresets[] = {"pair", "leaf-spine", "star", "ring", "dumbbell"};

class Builder {
 public:
  explicit Builder(const LinkShape& shape) : shape_(shape) {}

  std::size_t add(const std::string& name, bool is_host) {
    made.nodes.push_back({name, is_host});
    return made.nodes.size() - 1;
  }
  void join(std::size_t a, std::size_t b) { made.links.push_back({a, b, shape_}); }
  std::vector<std::size_t> add_all(const char* prefix, std::uint32_t count, bool is_host) {
    std::vector<std::size_t> all;
    for (std::uint32_t i = 1; i <= count; ++i) all.push_back(add(formatted("{}{}", prefix, i), is_host));
    return all;
  }

  Topology made;

 private:
  const LinkShape shape_;
};

void make_leaf_spine(Builder& builder, const PresetSizes& sizes) {
  const auto hosts = builder.add_all("h", sizes.hosts, true);
  const std::uint32_t leaves = sizes.leaves != 0 ? sizes.leaves : std::max(2u, (sizes.hosts + 3) / 4);
  const auto leaf = builder.add_all("leaf", leaves, false);
  const auto spine = builder.add_all("spine", std::max(1u, sizes.spines), false);
  for (std::size_t i = 0; i < hosts.size(); ++i) builder.join(hosts[i], leaf[i * leaf.size() / hosts.size()]);
  for (const std::size_t below : leaf) {
    for (const std::size_t above : spine) builder.join(below, above);
  }
}

// One switch for each host, connected in a ring.
void make_ring(Builder& builder, const PresetSizes& sizes) {
  const auto hosts = builder.add_all("h", sizes.hosts, true);
  const auto ring = builder.add_all("s", sizes.hosts, false);
  for (std::size_t i = 0; i < hosts.size(); ++i) builder.join(hosts[i], ring[i]);
  if (ring.size() < 2) return;
  for (std::size_t i = 0; i + (ring.size() == 2 ? 1 : 0) < ring.size(); ++i)
    builder.join(ring[i], ring[(i + 1) % ring.size()]);
}

// Half of the hosts on either side of one link.
void make_dumbbell(Builder& builder, const PresetSizes& sizes) {
  const auto hosts = builder.add_all("h", sizes.hosts, true);
  const std::size_t left = builder.add("left", false), right = builder.add("right", false);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    builder.join(hosts[i], i < (hosts.size() + 1) / 2 ? left : right);
  builder.join(left, right);
}

}  // namespace

std::size_t Topology::find(std::string_view name) const {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const LabNode& node) { return node.name == name; });
  return found != nodes.end() ? static_cast<std::size_t>(found - nodes.begin()) : std::string::npos;
}

std::string Topology::interface_of(std::size_t link, std::size_t node) const {
  std::size_t number = 0;
  for (std::size_t i = 0; i < link; ++i) number += links[i].a == node || links[i].b == node ? 1 : 0;
  return formatted("eth{}", number);
}

bool is_preset(std::string_view name) {
  return std::find(std::begin(kPresets), std::end(kPresets), name) != std::end(kPresets);
}

Result<Topology, std::string> make_preset(std::string_view name, const PresetSizes& sizes,
                                          const LinkShape& shape) {
  if (sizes.hosts < 1 || sizes.hosts > kLabHostsMax || sizes.leaves > kLabHostsMax ||
      sizes.spines > kLabHostsMax)
    return Failure{formatted("a lab has from 1 to {} hosts, and no more leaves or spines.", kLabHostsMax)};
  if (auto checked = check_shape(shape); !checked) return Failure{checked.error()};
  Builder builder(shape);
  if (name == "leaf-spine") {
    make_leaf_spine(builder, sizes);
  } else if (name == "ring") {
    make_ring(builder, sizes);
  } else if (name == "dumbbell") {
    make_dumbbell(builder, sizes);
  } else if (name == "pair") {
    builder.join(builder.add("h1", true), builder.add("h2", true));
  } else if (name == "star") {
    const auto hosts = builder.add_all("h", sizes.hosts, true);
    const std::size_t hub = builder.add("s1", false);
    for (const std::size_t host : hosts) builder.join(host, hub);
  } else {
    return Failure{
        formatted("'{}' is no preset: there are pair, leaf-spine, star, ring and dumbbell.", name)};
  }
  return std::move(builder.made);
}

std::string emit_topology(const Topology& topology) {
  std::string out;
  for (const LabNode& node : topology.nodes)
    out += formatted("node {} {}\n", node.name, node.is_host ? 1 : 0);
  for (const LabLink& link : topology.links) {
    const LinkShape& shape = link.shape;
    out += formatted("link {} {} {} {} {} {} {} {}\n", link.a, link.b, shape.rate_kbps, shape.delay.ns,
                     shape.loss_ppm, shape.queue, shape.ecn ? 1 : 0, shape.mtu);
  }
  return out;
}

Topology parse_topology(std::string_view text) {
  Topology topology;
  std::istringstream lines{std::string(text)};
  for (std::string kind; lines >> kind;) {
    if (kind == "node") {
      LabNode node;
      if (!(lines >> node.name >> node.is_host)) break;
      topology.nodes.push_back(std::move(node));
      continue;
    }
    LabLink link;
    LinkShape& shape = link.shape;
    if (!(lines >> link.a >> link.b >> shape.rate_kbps >> shape.delay.ns >> shape.loss_ppm >> shape.queue >>
          shape.ecn >> shape.mtu))
      break;
    topology.links.push_back(link);
  }
  const std::size_t nodes = topology.nodes.size();
  std::erase_if(topology.links, [&](const LabLink& link) { return link.a >= nodes || link.b >= nodes; });
  return topology;
}

std::string address_of(std::size_t link, bool second, bool ipv6) {
  const std::size_t number = (link + 1) * 2 + (second ? 1 : 0);
  if (ipv6) return formatted("fd90::{:x}", number + 0x100);
  return formatted("10.90.{}.{}", number / 256, number % 256);
}

std::string host_address(const Topology& topology, std::size_t host, bool ipv6) {
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    if (topology.links[i].a == host || topology.links[i].b == host)
      return address_of(i, topology.links[i].b == host, ipv6);
  }
  return "";
}

std::vector<std::size_t> next_hops(const Topology& topology, const std::set<std::size_t>& cut,
                                   std::size_t from, std::size_t host_link) {
  const LabLink& last = topology.links[host_link];
  const bool a_is_host = topology.nodes[last.a].is_host;
  const std::size_t gate = a_is_host ? last.b : last.a;  // the node before the host
  constexpr std::size_t kFar = std::string::npos;
  std::vector<std::size_t> distance(topology.nodes.size(), kFar);
  if (cut.contains(host_link) || from == gate || from == last.a || from == last.b) return {};
  distance[gate] = 0;
  std::deque<std::size_t> waiting{gate};
  while (!waiting.empty()) {
    const std::size_t node = waiting.front();
    waiting.pop_front();
    if (topology.nodes[node].is_host && node != gate) continue;  // paths do not lead through hosts
    for (std::size_t i = 0; i < topology.links.size(); ++i) {
      const LabLink& link = topology.links[i];
      if (cut.contains(i) || (link.a != node && link.b != node)) continue;
      const std::size_t other = link.a == node ? link.b : link.a;
      if (distance[other] != kFar) continue;
      distance[other] = distance[node] + 1;
      waiting.push_back(other);
    }
  }
  std::vector<std::size_t> hops;
  if (distance[from] == kFar) return hops;
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LabLink& link = topology.links[i];
    if (cut.contains(i) || (link.a != from && link.b != from)) continue;
    const std::size_t other = link.a == from ? link.b : link.a;
    if (distance[other] != kFar && distance[other] + 1 == distance[from] &&
        (!topology.nodes[other].is_host || other == gate))
      hops.push_back(i);
  }
  return hops;
}

}  // namespace rrdma::tools
