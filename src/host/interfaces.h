// What netlink says about the network interfaces of this namespace: addresses, MTU, state, and which one
// the default route uses. Snapshots; InterfaceMonitor tells when to take a new one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/problem.h"
#include "base/result.h"
#include "wire/gid.h"

namespace rrdma::host {

struct InterfaceAddress {
  wire::Gid gid;
  std::uint8_t prefix_length = 0;  // of its subnet; a point-to-point address is a subnet of its own
  int created = 0;                 // when, as the kernel counts
};

struct Interface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu = 0;
  bool running = false;  // up, with carrier
  bool loopback = false;
  bool default_route = false;
  bool link_local = false;  // has a link-local address, or gets one as soon as it is up
  std::uint8_t mac[6] = {};
  // Link-local first, also while it is checked for duplicates; then as they were made, IPv4 before IPv6 at one moment.
  std::vector<InterfaceAddress> addresses;
};

// All interfaces, in the order of their index; never a part of them. None where a constructor of another library asks
// before those of libnl have run.
[[nodiscard]] Result<std::vector<Interface>, Problem> read_interfaces();

// The one that a device sits on: `wanted` if it is not empty, else that of the default route, else lo.
// Null if there is none.
const Interface* choose_interface(const std::vector<Interface>& all, const std::string& wanted);

// Readable when an address or an interface has changed.
class InterfaceMonitor {
 public:
  InterfaceMonitor();
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Takes what has arrived; true if anything did.
  bool changed();

 private:
  OwnedFd socket_;
};

}  // namespace rrdma::host
