// NetlinkDevice: a Device whose port and GID table follow a network interface.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "nic/device.h"
#include "nic/interfaces.h"

namespace rrdma::nic {

class NetlinkDevice final : public Device {
 public:
  static constexpr std::size_t kGidsMax = 128;

  NetlinkDevice(DeviceIdentity identity, const std::vector<Interface>& interfaces);

  const DeviceIdentity& identity() const override { return identity_; }
  PortStatus port() const override;
  std::vector<GidEntry> gids() const override;
  bool is_local_address(const wire::Gid& gid) const override;
  void add_listener(DeviceListener& listener) override;
  void remove_listener(DeviceListener& listener) override;

  // Takes a new snapshot and tells the listeners what changed.
  void refresh(const std::vector<Interface>& interfaces);

 private:
  void take(const std::vector<Interface>& interfaces);

  const DeviceIdentity identity_;
  mutable std::mutex mutex_;
  PortStatus port_;
  std::vector<GidEntry> gids_;
  std::vector<wire::Gid> local_;  // of all interfaces
  std::vector<DeviceListener*> listeners_;
};

// "rrdma0" and its kin: the identity of the device with this index on this interface.
DeviceIdentity identify(const Interface& interface, std::uint32_t index);
// The largest IB MTU that fits an interface, as the kernel's RoCE computes it: headers take at most 96 octets.
std::uint8_t ib_mtu_code(std::uint32_t interface_mtu);

}  // namespace rrdma::nic
