#include "tools/local_devices.h"

#include "nic/device_links.h"
#include "nic/interfaces.h"
#include "nic/netlink_device.h"
#include "nic/settings.h"

namespace rrdma::tools {

Result<std::vector<LocalDevice>, std::string> read_local_devices(const std::string& netdev) {
  const std::string wanted = netdev.empty() ? nic::settings_from_environment().netdev : netdev;
  const std::vector<nic::Interface> interfaces = nic::read_interfaces();
  if (interfaces.empty()) return Failure{std::string("netlink cannot be asked for the network interfaces")};
  const std::vector<nic::Placement> placements = nic::place_devices(interfaces, wanted);
  if (placements.empty()) {
    return Failure{wanted.empty() ? std::string("this network namespace has no usable interface")
                                  : "there is no network interface '" + wanted + "'"};
  }
  std::vector<LocalDevice> devices;
  for (const nic::Placement& placement : placements) {
    const nic::NetlinkDevice device(nic::identify(*placement.interface, placement.number), interfaces);
    devices.push_back({.identity = device.identity(), .port = device.port(), .gids = device.gids(), .loopback = placement.interface->loopback});
  }
  return devices;
}

}  // namespace rrdma::tools
