// Which devices there are, and on which interface each sits: rrdma0 where `rrdma run` puts it, and those that
// the user has added (`rrdma link add`), kept in a file of the user, one on each line:
//
//   file = { device, " ", interface, "\n" }     $XDG_CONFIG_HOME/rrdma/links, or ~/.config/rrdma/links
//
// Where a plan wants more devices (device_plan.h), each further one sits on an interface of its own as long as there are
// such, and then on lo, which several devices share: the one with number N has 10.82.0.N+1 and fd52:5244:4d41::N+1 there
// if lo has them (`rrdma run --private` makes them), and else 127.0.0.N+1, which every host has.
//
// A line that makes no sense, and an interface that this network namespace does not have, are passed over.
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
  std::uint32_t number = 0;  // of rrdma<number>, from 1
  std::string interface;
};

// Empty: this user has no home.
[[nodiscard]] std::string added_links_file();
// In the order of their numbers. A file that is not there, or not for this user, is an empty one.
[[nodiscard]] Result<std::vector<AddedLink>, Problem> read_added_links();
// Replaces the file at once. The error is an errno.
[[nodiscard]] Result<void, int> write_added_links(const std::vector<AddedLink>& links);

struct Placement {
  const Interface* interface;
  std::uint32_t number;
  std::vector<wire::Gid> addresses;  // of lo where devices share it; empty: all
};
// In the order of their numbers, rrdma0 first; empty where there is no interface for it. `wanted` as for
// choose_interface(). `count`: of the plan; 0: as many as there are without one.
[[nodiscard]] std::vector<Placement> place_devices(const std::vector<Interface>& interfaces,
                                                   const std::vector<AddedLink>& added,
                                                   const std::string& wanted, std::uint32_t count = 0);

// The addresses that a device has on lo in a network namespace of its own.
struct PrivateAddresses {
  wire::Gid ipv4;
  wire::Gid ipv6;
};
[[nodiscard]] PrivateAddresses private_addresses(std::uint32_t number);

}  // namespace rrdma::host
