// Which devices there are, and on which interface each sits: rrdma0 where `rrdma run` puts it, and those that
// the user has added (`rrdma link add`), kept in a file of the user, one on each line:
//
//   file = { device, " ", interface, "\n" }     $XDG_CONFIG_HOME/rrdma/links, or ~/.config/rrdma/links
//
// A line that makes no sense, and an interface that this network namespace does not have, are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/interfaces.h"

namespace rrdma::host {

inline constexpr std::uint32_t kAddedDevicesMax = 15;

struct AddedLink {
  std::uint32_t number = 0;  // of rrdma<number>, from 1
  std::string interface;
};

// Empty: this user has no home.
[[nodiscard]] std::string added_links_file();
// In the order of their numbers.
[[nodiscard]] std::vector<AddedLink> read_added_links();
// Replaces the file at once. The error is an errno.
[[nodiscard]] Result<void, int> write_added_links(const std::vector<AddedLink>& links);

struct Placement {
  const Interface* interface;
  std::uint32_t number;
};
// rrdma0 first; empty where there is no interface for it. `wanted` as for choose_interface().
[[nodiscard]] std::vector<Placement> place_devices(const std::vector<Interface>& interfaces,
                                                   const std::string& wanted);

}  // namespace rrdma::host
