#include "tools/local_devices.h"

#include "nic/interfaces.h"
#include "nic/netlink_device.h"
#include "nic/settings.h"

namespace rrdma::tools {

Result<std::vector<LocalDevice>, std::string> read_local_devices(const std::string& netdev) {
  const std::string wanted = netdev.empty() ? nic::settings_from_environment().netdev : netdev;
  const std::vector<nic::Interface> interfaces = nic::read_interfaces();
  if (interfaces.empty()) return Failure{std::string("netlink cannot be asked for the network interfaces")};
  const nic::Interface* chosen = nic::choose_interface(interfaces, wanted);
  if (chosen == nullptr) {
    return Failure{wanted.empty() ? std::string("this network namespace has no usable interface")
                                  : "there is no network interface '" + wanted + "'"};
  }
  const nic::NetlinkDevice device(nic::identify(*chosen, 0), interfaces);
  return std::vector<LocalDevice>{
      {.identity = device.identity(), .port = device.port(), .gids = device.gids(), .loopback = chosen->loopback}};
}

}  // namespace rrdma::tools
