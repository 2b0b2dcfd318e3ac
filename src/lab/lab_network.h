// The network of a lab, created with ip(8) and tc(8) in the namespaces of its nodes: cables, addresses, link
// shapes and routes. Routes are recomputed whenever a link is cut or healed, as a routing protocol would do
// eventually.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/topology.h"

namespace rrdma::tools {

// For each node, the process that holds its namespaces.
using NodeHolders = std::vector<pid_t>;

// Whether tc can delay and drop packets here. REQUIRES: CAP_NET_ADMIN in the network of this process.
[[nodiscard]] bool has_netem();

// REQUIRES: the namespaces of lab_space.h. The error is a sentence.
[[nodiscard]] Result<void, std::string> build_network(const Topology& topology, const NodeHolders& holders);
[[nodiscard]] Result<void, std::string> set_routes(const Topology& topology, const NodeHolders& holders,
                                                   const std::set<std::size_t>& cut);
[[nodiscard]] Result<void, std::string> set_link(const Topology& topology, const NodeHolders& holders,
                                                 std::size_t link, bool up);

}  // namespace rrdma::tools
