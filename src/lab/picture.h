// Draws a lab, for a terminal and as SVG. Rows of nodes are ordered by their distance from the hosts.
#pragma once

#include <set>
#include <string>

#include "lab/topology.h"

namespace rrdma::tools {

[[nodiscard]] std::string terminal_picture(const Topology& topology, const std::set<std::size_t>& cut);
[[nodiscard]] std::string svg_picture(const Topology& topology, const std::set<std::size_t>& cut);

}  // namespace rrdma::tools
