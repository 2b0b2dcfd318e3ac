// DeviceView: what files say about one device, at one moment.
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
  std::uint16_t lid = 0;   // as ibv_query_port says
  std::string verbs_file;  // uverbs0
  std::string numa_node = "-1";
  bool pci_root_is_machines = false;  // the machine has such a root too, with devices of its own
};

// The device files' name of a device: the first uverbsN from its own number on that the kernel has not
// given to a device of the machine.
std::string verbs_file_of(const host::DeviceIdentity& identity);

// Every device of this process as it is now. Asks the kernel for its interfaces.
[[nodiscard]] Result<std::vector<DeviceView>, Problem> view_devices();

}  // namespace rrdma::files
