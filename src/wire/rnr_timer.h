// The delays that the five bits of an RNR NAK's timer encode: how long the requester waits before it retries.
// Code 0 is the longest delay.
#pragma once

#include <array>
#include <cstdint>

namespace rrdma::wire {

namespace rnr_timer {
// In units of 10 microseconds (IBTA volume 1, table 45).
inline constexpr std::array<std::uint32_t, 32> kDelays = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
}  // namespace rnr_timer

[[nodiscard]] constexpr std::uint64_t rnr_delay_ns(std::uint8_t code) {
  return std::uint64_t{rnr_timer::kDelays[code & 0x1f]} * 10'000;
}

}  // namespace rrdma::wire
