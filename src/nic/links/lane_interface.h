// LaneInterface: the network interface that a lane is based on.
#pragma once

#include <cstdint>
#include <string>

namespace rrdma::nic {

// The interface that sockets use if an address alone is ambiguous (link-local, multicast), and its name in
// captures.
struct LaneInterface {
  std::string name;
  std::uint32_t index = 0;
};

}  // namespace rrdma::nic
