// Which entries of a GID table a caller can use instead of an empty one.
#pragma once

#include <span>
#include <string>

#include "host/device.h"

namespace rrdma::host {

// The entry to use for a destination: of its address family, IPv4 first if the destination is zero. Null if
// the table is empty.
[[nodiscard]] const GidEntry* choose_gid(std::span<const GidEntry> gids, const wire::Gid& destination);

// "use 1 (10.9.0.1)", or "the device has no GID: give its interface an address".
[[nodiscard]] std::string usable_gids_text(std::span<const GidEntry> gids, const wire::Gid& destination);

}  // namespace rrdma::host
