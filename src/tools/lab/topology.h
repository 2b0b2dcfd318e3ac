// Topology: the hosts, switches and links of a lab, as a TOML file or a preset says:
//
//   preset = "leaf-spine"        # or star, ring, dumbbell; with hosts, leaves and spines
//   hosts = 8
//   [defaults]                   # of every link
//   rate = "10G"  delay = "20us"  loss = "0.1%"  queue = 200  ecn = true  mtu = 4200
//   [[host]]   name = "h1"
//   [[switch]] name = "s1"
//   [[link]]   between = ["h1", "s1"]  rate = "1G"
//
// Pure: what is made of it is lab_network.h's.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/lab/link_shape.h"

namespace rrdma::tools {

struct LabNode {
  std::string name;
  bool is_host = false;
};

struct LabLink {
  std::size_t a = 0;  // nodes
  std::size_t b = 0;
  LinkShape shape;
};

struct Topology {
  std::vector<LabNode> nodes;
  std::vector<LabLink> links;

  static constexpr std::uint32_t kUsualMtu = 4200;  // 4096 octets of payload and all headers

  // npos: none.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  // The interfaces of a link's ends: eth0, eth1, ... in the order of the node's links.
  [[nodiscard]] std::string interface_of(std::size_t link, std::size_t node) const;
};

struct PresetSizes {
  std::uint32_t hosts = 4;
  std::uint32_t leaves = 0;  // 0: as many as suit
  std::uint32_t spines = 2;
};

inline constexpr std::uint32_t kLabHostsMax = 64;

[[nodiscard]] bool is_preset(std::string_view name);
[[nodiscard]] Result<Topology, std::string> make_preset(std::string_view name, const PresetSizes& sizes,
                                                        const LinkShape& shape);
// The error is a sentence with the place.
[[nodiscard]] Result<Topology, std::string> read_topology(const std::string& path);
// One node or link on each line, for those who join the lab later; and back. REQUIRES of the latter: written by the former.
[[nodiscard]] std::string emit_topology(const Topology& topology);
[[nodiscard]] Topology parse_topology(std::string_view text);

// ---- addresses and routes

// An end of a link, which has a pair of addresses to itself: a /31 and a /127.
[[nodiscard]] std::string address_of(std::size_t link, bool second, bool ipv6);
// The address by which a host is known: that of its first link. Empty: it has none.
[[nodiscard]] std::string host_address(const Topology& topology, std::size_t host, bool ipv6);

// The next hops from a node to the host end of a link, as links of that node: all that are on a shortest way over links
// that are not cut, never through a host. Empty: there is no way, or none is needed.
[[nodiscard]] std::vector<std::size_t> next_hops(const Topology& topology, const std::set<std::size_t>& cut,
                                                 std::size_t from, std::size_t host_link);

}  // namespace rrdma::tools
