// The network interfaces of this namespace according to netlink: addresses, MTU, state, and the interface of
// the default route. These are snapshots; InterfaceMonitor tells when to take a new one.
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
  std::uint8_t prefix_length = 0;  // of its subnet; a point-to-point address is its own subnet
  int created = 0;                 // creation time, in kernel units
};

struct Interface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu = 0;
  bool running = false;  // up, with carrier
  bool loopback = false;
  bool default_route = false;
  bool link_local = false;  // has a link-local address, or will get one when it is up
  std::uint8_t mac[6] = {};
  // Link-local first, even while tentative; then by creation time, IPv4 before IPv6 if equal.
  std::vector<InterfaceAddress> addresses;
};

// All interfaces, sorted by index; never a subset. Empty if another library's constructor calls this before
// libnl's constructors have run.
[[nodiscard]] Result<std::vector<Interface>, Problem> read_interfaces();

// The interface for a device: `wanted` if it is not empty, else that of the default route, else lo. Null if
// there is none.
const Interface* choose_interface(const std::vector<Interface>& all, const std::string& wanted);

// Readable when an address or an interface has changed.
class InterfaceMonitor {
 public:
  InterfaceMonitor();
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Drains the notifications; true if there were any.
  bool changed();

 private:
  OwnedFd socket_;
};

}  // namespace rrdma::host
