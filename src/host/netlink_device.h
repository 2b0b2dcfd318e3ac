// NetlinkDevice: a Device whose port and GID table follow a network interface.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "host/device.h"
#include "host/device_links.h"
#include "host/interfaces.h"

namespace rrdma::host {

// Faults on purpose, on top of what the interface is.
struct Imposed {
  bool port_down = false;
  bool gids_lost = false;
  bool removed = false;
  std::uint32_t addresses_changed = 0;  // times that the interface got another hardware address
  std::uint64_t speed_mbps = 0;         // 0: its own
  std::vector<wire::Gid> added;
  std::optional<wire::Gid> changed;  // in the place of the last one
  friend bool operator==(const Imposed&, const Imposed&) = default;
};

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

  // Takes a new snapshot and tells the listeners what changed, without the lock that guards the snapshot.
  // From one thread at a time. No interfaces at all means that netlink could not be asked: nothing happens.
  void refresh(const std::vector<Interface>& interfaces);
  // From now on it looks like that; listeners hear of it as of a change of the interface. Also from one thread at a time.
  void impose(const Imposed& faults, const std::vector<Interface>& interfaces);

 private:
  // REQUIRES: the lock, but in the constructor.
  void take(const std::vector<Interface>& interfaces);
  void take_from_interface(const std::vector<Interface>& interfaces);
  void take_addresses(const std::vector<InterfaceAddress>& addresses);
  [[nodiscard]] std::vector<InterfaceAddress> own_addresses(const Interface& interface) const;
  [[nodiscard]] std::vector<DeviceEvent> take_and_compare(const std::vector<Interface>& interfaces);

  const DeviceIdentity identity_;
  mutable std::mutex mutex_;
  PortStatus port_;
  std::vector<GidEntry> gids_;
  std::vector<wire::Gid> local_;  // of all interfaces
  std::array<std::uint8_t, 6> hardware_address_{};
  bool present_ = true;
  Imposed imposed_;
  bool first_is_link_local_ = false;  // nothing else takes index 0

  std::mutex telling_;  // while listeners are called; before mutex_ where both are taken
  std::vector<DeviceListener*> listeners_;
};

// "rrdma0" and its kin: the identity of the device with this index on this interface.
DeviceIdentity identify(const Interface& interface, std::uint32_t index);
// The same with what else the placement and the plan say.
DeviceIdentity identify(const Placement& placement, const DevicePlan& plan);
// The largest IB MTU that fits an interface, as the kernel's RoCE computes it: headers take at most 96 octets.
std::uint8_t ib_mtu_code(std::uint32_t interface_mtu);

}  // namespace rrdma::host
