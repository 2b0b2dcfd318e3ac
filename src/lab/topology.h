// Topology: the hosts, switches and links of a lab, from a TOML file or a preset:
//
//   preset = "leaf-spine"        # or pair, star, ring, dumbbell; with hosts, leaves and spines
//   hosts = 8
//   [defaults]                   # for every link
//   rate = "10G"  delay = "20us"  loss = "0.1%"  queue = 200  ecn = true  mtu = 4200
//   [[host]]   name = "h1"
//   [[switch]] name = "s1"
//   [[link]]   between = ["h1", "s1"]  rate = "1G"
//
// Data only; lab_network.h creates the network.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/link_shape.h"

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

  static constexpr std::uint32_t kUsualMtu = 4200;  // 4096 bytes of payload and all headers

  // Returns npos if there is none.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  // The interface names at the ends of a link: eth0, eth1, ... in the order of the node's links.
  [[nodiscard]] std::string interface_of(std::size_t link, std::size_t node) const;
};

struct PresetSizes {
  std::uint32_t hosts = 4;
  std::uint32_t leaves = 0;  // 0: a suitable number
  std::uint32_t spines = 2;
};

inline constexpr std::uint32_t kLabHostsMax = 64;

[[nodiscard]] bool is_preset(std::string_view name);
[[nodiscard]] Result<Topology, std::string> make_preset(std::string_view name, const PresetSizes& sizes,
                                                        const LinkShape& shape);
// The error is a sentence with the position in the file.
[[nodiscard]] Result<Topology, std::string> read_topology(const std::string& path);
// Serialises one node or link on each line, for commands that join the lab later, and parses it back.
// REQUIRES: parse_topology() gets the output of emit_topology().
[[nodiscard]] std::string emit_topology(const Topology& topology);
[[nodiscard]] Topology parse_topology(std::string_view text);

// ---- addresses and routes ----

// The address of one end of a link. Each link has its own /31 and /127.
[[nodiscard]] std::string address_of(std::size_t link, bool second, bool ipv6);
// The address of a host's first link, by which the host is known. Empty if it has none.
[[nodiscard]] std::string host_address(const Topology& topology, std::size_t host, bool ipv6);

// The next hops from a node to the host end of a link, as links of that node: all links on a shortest path
// that avoids cut links and does not lead through hosts. Empty if there is no path, or none is needed.
[[nodiscard]] std::vector<std::size_t> next_hops(const Topology& topology, const std::set<std::size_t>& cut,
                                                 std::size_t from, std::size_t host_link);

}  // namespace rrdma::tools
