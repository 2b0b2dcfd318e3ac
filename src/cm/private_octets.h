// Copies private data or additional information into the field of a message.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.h"
#include "base/octets.h"

namespace rrdma::cm {

// REQUIRES: `from` fits into `to` from position `at` on; callers refuse longer data.
template <std::size_t N>
void place_octets(Octets from, std::array<std::uint8_t, N>& to, std::size_t at = 0) {
  RRDMA_ASSERT(at + from.size() <= N);
  std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace rrdma::cm
