// DeviceView: a snapshot of one device for its files.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "host/device.h"

namespace rrdma::files {

struct DeviceView {
  host::DeviceIdentity identity;
  host::PortStatus port;
  std::vector<host::GidEntry> gids;
  std::uint16_t lid = 0;   // the same as in ibv_query_port
  std::string verbs_file;  // uverbs0
  std::string numa_node = "-1";
  bool pci_root_is_machines = false;  // the machine has the same root, with devices of its own
};

// The name of a device's command file: the first uverbsN, starting at its own number, that the kernel has not
// given to a device of the machine.
std::string verbs_file_of(const host::DeviceIdentity& identity);

// Every device of this process in its current state. Asks the kernel for its interfaces.
[[nodiscard]] Result<std::vector<DeviceView>, Problem> view_devices();

}  // namespace rrdma::files
