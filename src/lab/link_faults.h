// Emulates the links of a lab if the kernel has no netem, with RRDMA's own faults (faults/rule.h) in the
// programs of each host. They affect only packets of queue pairs. The rules for a peer combine all links on
// the path: the sum of the delays and the combined loss.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "lab/topology.h"

namespace rrdma::tools {

// The rules for RRDMA_FAULTS of programs on this host. Empty if the links have no effect.
[[nodiscard]] std::string link_faults(const Topology& topology, const std::set<std::size_t>& cut,
                                      std::size_t host);

}  // namespace rrdma::tools
