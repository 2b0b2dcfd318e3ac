// Device: one RDMA device on one network interface (rrdma0 on eth0). Identity, port and GID table come from
// the interface (netlink). The table is a snapshot that changes with the interface; listeners hear of every
// change.
//
// Threads: all calls from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/problem.h"
#include "host/device_plan.h"
#include "wire/gid.h"
#include "wire/numbers.h"

namespace rrdma::host {

struct DeviceIdentity {
  std::string name;       // rrdma0
  std::string interface;  // eth0
  std::uint32_t interface_index = 0;
  std::uint64_t guid = 0;  // host order; from the MAC address, or derived from the host's identity for lo
  std::uint32_t device_index = 0;
  // The addresses of this device, if several devices share the interface. Empty: all of the interface's
  // addresses.
  std::vector<wire::Gid> addresses;
  DeviceProperties properties;
};

struct PortStatus {
  bool up = false;
  std::uint32_t interface_mtu = 0;
  std::uint8_t mtu_code = 1;     // largest IB MTU that fits (IBV_MTU_256 = 1 .. 4096 = 5)
  std::uint64_t speed_mbps = 0;  // 0: unknown
  std::uint8_t width = 0;        // lanes; 0: derived from the speed
};

struct GidEntry {
  wire::Gid gid;
  std::uint32_t index = 0;
  std::uint8_t prefix_length = 0;  // of the subnet
  bool valid = false;
};

enum class DeviceEvent : std::uint8_t {
  kGidChange,
  kPortActive,
  kPortError,
  kHardwareAddressChange,  // a new MAC address, for example after a bond's failover
  kRemoved,                // the interface is gone; a new one with that name is another device
};

class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  // The device already shows the change and may be queried. Do not add or remove listeners in this call.
  virtual void on_device_event(DeviceEvent event) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceIdentity& identity() const = 0;
  [[nodiscard]] virtual PortStatus port() const = 0;
  // The GID table: index 0 is the interface's link-local GID if it has one, then each IPv4 and IPv6 address.
  // An address keeps its index.
  [[nodiscard]] virtual std::vector<GidEntry> gids() const = 0;
  // True if the address belongs to this host (any interface of this network namespace).
  [[nodiscard]] virtual bool is_local_address(const wire::Gid& gid) const = 0;
  virtual void add_listener(DeviceListener& listener) = 0;
  virtual void remove_listener(DeviceListener& listener) = 0;
};

}  // namespace rrdma::host
