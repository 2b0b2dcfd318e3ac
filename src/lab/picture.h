// Draws a lab, for a terminal and as SVG. Rows of nodes are ordered by their distance from the hosts.
#pragma once

#include <set>
#include <string>

#include "lab/link_traffic.h"
#include "lab/topology.h"

namespace rrdma::tools {

[[nodiscard]] std::string terminal_picture(const Topology& topology, const std::set<std::size_t>& cut,
                                           const std::vector<LinkTraffic>& traffic);
[[nodiscard]] std::string svg_picture(const Topology& topology, const std::set<std::size_t>& cut);

}  // namespace rrdma::tools
