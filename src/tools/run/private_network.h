// A network namespace for one run: lo alone, with an IPv4 and an IPv6 address for each device. It is made with the
// rights of an ordinary user, in a user namespace in which everybody keeps the number that he has, and it is gone with
// the last program in it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rrdma::tools {

struct NamespaceProblem {
  std::string sentence;
  std::string hint;
};

// Takes this process there. REQUIRES: it has one thread.
[[nodiscard]] Result<void, NamespaceProblem> enter_private_network(std::uint32_t devices);

}  // namespace rrdma::tools
