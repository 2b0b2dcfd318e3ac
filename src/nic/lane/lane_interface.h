// LaneInterface: the network interface that a lane stands on.
#pragma once

#include <cstdint>
#include <string>

namespace rrdma::nic {

// The interface whose addresses and groups sockets use where an address alone does not say it, and its name in captures.
struct LaneInterface {
  std::string name;
  std::uint32_t index = 0;
};

}  // namespace rrdma::nic
