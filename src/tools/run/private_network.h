// A network namespace for one run: only lo, with an IPv4 and an IPv6 address for each device. An ordinary
// user can create it, in a user namespace that keeps the uid. It disappears with the last program in it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rrdma::tools {

struct NamespaceProblem {
  std::string sentence;
  std::string hint;
};

// Moves this process into the namespace. REQUIRES: it has one thread.
[[nodiscard]] Result<void, NamespaceProblem> enter_private_network(std::uint32_t devices);

}  // namespace rrdma::tools
