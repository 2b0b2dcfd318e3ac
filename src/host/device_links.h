// The devices and their interfaces: rrdma0, which `rrdma run` places, and those that the user added (`rrdma
// link add`). A file of the user lists the added ones, one on each line:
//
//   file = { device, " ", interface, "\n" }     $XDG_CONFIG_HOME/rrdma/links, or ~/.config/rrdma/links
//
// If a plan requests more devices (device_plan.h), each further one gets an unused interface while there are
// any. The rest share lo. There, device N has 10.82.0.N+1 and fd52:5244:4d41::N+1 if lo has them (`rrdma run
// --private` creates them), and otherwise 127.0.0.N+1, which every host has.
//
// Malformed lines are ignored, and so are interfaces that do not exist in this network namespace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "host/device_plan.h"
#include "host/interfaces.h"

namespace rrdma::host {

inline constexpr std::uint32_t kAddedDevicesMax = 15;

struct AddedLink {
  std::uint32_t number = 0;  // of rrdma<number>; at least 1
  std::string interface;
};

// Empty if this user has no home directory.
[[nodiscard]] std::string added_links_file();
// Sorted by number. A missing or unreadable file counts as empty.
[[nodiscard]] Result<std::vector<AddedLink>, Problem> read_added_links();
// Replaces the file atomically. The error is an errno.
[[nodiscard]] Result<void, int> write_added_links(const std::vector<AddedLink>& links);

struct Placement {
  const Interface* interface;
  std::uint32_t number;
  std::vector<wire::Gid> addresses;  // if devices share lo; empty: all
};
// Sorted by number, rrdma0 first; empty if there is no interface for it. `wanted`: see choose_interface().
// `count`: from the plan; 0: no plan.
[[nodiscard]] std::vector<Placement> place_devices(const std::vector<Interface>& interfaces,
                                                   const std::vector<AddedLink>& added,
                                                   const std::string& wanted, std::uint32_t count = 0);

// The addresses of a device on lo in a private network namespace.
struct PrivateAddresses {
  wire::Gid ipv4;
  wire::Gid ipv6;
};
[[nodiscard]] PrivateAddresses private_addresses(std::uint32_t number);

}  // namespace rrdma::host
