// The traffic of the links of a lab: bytes and drops of both directions, read at the queues of the nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "lab/lab_network.h"
#include "lab/topology.h"

namespace rrdma::tools {

// Of one direction of a link.
struct DirectionTraffic {
  std::uint64_t bits_per_second = 0;
  std::uint64_t dropped = 0;  // by the queue of the sending end, since the lab began: loss, and a full queue
};
struct LinkTraffic {
  DirectionTraffic from_a;
  DirectionTraffic from_b;
};

// Measures all links for this time. Empty if the nodes cannot be read. REQUIRES: joined.
[[nodiscard]] std::vector<LinkTraffic> measure_links(const Topology& topology, const NodeHolders& holders,
                                                     std::chrono::milliseconds time);

}  // namespace rrdma::tools
