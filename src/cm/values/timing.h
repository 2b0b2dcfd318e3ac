// Times of the connection manager as encoded on the wire: code n stands for 4.096 us * 2^n.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/instant.h"

namespace rrdma::cm {

inline constexpr std::uint8_t kTimeCodeMax = 31;  // five bits

[[nodiscard]] constexpr Duration time_of_code(std::uint8_t code) {
  return nanoseconds(std::int64_t{4096} << std::min(code, kTimeCodeMax));
}

// The code of the ack timeout: 2 * packet lifetime + the ack delay of the other side's adapter. A sum of
// powers of two has no exact code. As in the Linux kernel, the larger term wins; it is doubled only if the
// smaller one is at least half of it. IBTA 12.7.34.
[[nodiscard]] constexpr std::uint8_t ack_timeout_code(std::uint8_t ack_delay, std::uint8_t packet_lifetime) {
  const int flight = packet_lifetime + 1;
  const int larger = std::max<int>(flight, ack_delay);
  const int smaller = std::min<int>(flight, ack_delay);
  return static_cast<std::uint8_t>(std::min<int>(kTimeCodeMax, larger + (smaller >= larger - 1 ? 1 : 0)));
}

}  // namespace rrdma::cm
