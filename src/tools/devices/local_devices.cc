#include "tools/devices/local_devices.h"

#include "host/device_links.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "nic/settings.h"

namespace rrdma::tools {

Result<std::vector<LocalDevice>, std::string> read_local_devices(const std::string& netdev) {
  const nic::Settings settings = nic::settings_from_environment();
  const std::string wanted = netdev.empty() ? settings.netdev : netdev;
  const auto interfaces = host::read_interfaces();
  if (!interfaces) return Failure{interfaces.error().sentence};
  const auto added = host::read_added_links();
  if (!added) return Failure{added.error().sentence};
  const std::vector<host::Placement> placements =
      host::place_devices(*interfaces, *added, wanted, settings.device_plan.count);
  if (placements.empty()) {
    return Failure{wanted.empty() ? std::string("this network namespace has no usable interface")
                                  : "there is no network interface '" + wanted + "'"};
  }
  std::vector<LocalDevice> devices;
  for (const host::Placement& placement : placements) {
    const host::NetlinkDevice device(host::identify(placement, settings.device_plan), *interfaces);
    devices.push_back({.identity = device.identity(),
                       .port = device.port(),
                       .gids = device.gids(),
                       .loopback = placement.interface->loopback});
  }
  return devices;
}

}  // namespace rrdma::tools
