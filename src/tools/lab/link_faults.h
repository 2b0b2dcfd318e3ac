// What the links of a lab do to packets where the kernel has no netem: RRDMA's own faults (faults/rule.h) stand for it in the
// programs of each host. They befall the packets of queue pairs alone, by the way to each peer: the delays of its links in
// sum, and the chances of all of them.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "tools/lab/topology.h"

namespace rrdma::tools {

// Rules for RRDMA_FAULTS, for programs on this host; empty: the links do nothing.
[[nodiscard]] std::string link_faults(const Topology& topology, const std::set<std::size_t>& cut,
                                      std::size_t host);

}  // namespace rrdma::tools
