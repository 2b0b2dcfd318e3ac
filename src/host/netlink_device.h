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

// Injected faults, on top of the state of the interface.
struct Imposed {
  bool port_down = false;
  bool gids_lost = false;
  bool removed = false;
  std::uint32_t addresses_changed = 0;  // number of changes of the hardware address
  std::uint64_t speed_mbps = 0;         // 0: the interface's speed
  std::vector<wire::Gid> added;
  std::optional<wire::Gid> changed;  // replaces the last one
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

  // Takes a new snapshot and notifies the listeners of changes, without holding the lock of the snapshot. One
  // thread at a time. An empty list means that netlink failed: nothing changes.
  void refresh(const std::vector<Interface>& interfaces);
  // Injects these faults from now on. Listeners see them as changes of the interface. One thread at a time.
  void impose(const Imposed& faults, const std::vector<Interface>& interfaces);

 private:
  // REQUIRES: the lock is held, except in the constructor.
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
  bool first_is_link_local_ = false;  // reserves index 0

  std::mutex telling_;  // held while listeners are called; lock order: before mutex_
  std::vector<DeviceListener*> listeners_;
};

// The identity of device "rrdma<index>" on this interface.
DeviceIdentity identify(const Interface& interface, std::uint32_t index);
// The same, with the properties of the placement and the plan.
DeviceIdentity identify(const Placement& placement, const DevicePlan& plan);
// The largest IB MTU that fits an interface, computed as in the kernel's RoCE: headers take at most 96 bytes.
std::uint8_t ib_mtu_code(std::uint32_t interface_mtu);

}  // namespace rrdma::host
