// The devices as programs of this user see them, read from the network interfaces. Starts nothing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/device.h"

namespace rrdma::tools {

struct LocalDevice {
  host::DeviceIdentity identity;
  host::PortStatus port;
  std::vector<host::GidEntry> gids;
  bool loopback = false;
};

// Reads the devices on interface `netdev`, or on the one that `rrdma run` would choose if it is empty. The
// error is a sentence for the user.
Result<std::vector<LocalDevice>, std::string> read_local_devices(const std::string& netdev);

// 256 for code 1, and so on.
constexpr unsigned ib_mtu_octets(std::uint8_t code) { return 128u << code; }

}  // namespace rrdma::tools
