// Crc32: the CRC-32 of Ethernet (reflected, polynomial 0x04c11db7) over a message that arrives in
// pieces. The octets are summed by ISA-L, on arm64 by the CPU's own instructions (docs/adr/0005).
// Does not know what the ICRC covers (see icrc.h).
#pragma once

#include <cstdint>

#include "base/octets.h"

namespace rrdma::wire {

// Goes on from `crc`, the value of an earlier sum or 0, over `octets`; crc32_extend(0, "123456789") is
// 0xcbf43926.
[[nodiscard]] std::uint32_t crc32_extend(std::uint32_t crc, Octets octets);

// The same, and copies the octets to `to` on the way: each is read once, so that the sum is that of the copy even
// where somebody writes to them meanwhile. REQUIRES: the two do not overlap.
[[nodiscard]] std::uint32_t crc32_copy(std::uint32_t crc, Octets octets, std::uint8_t* to);

class Crc32 {
 public:
  constexpr Crc32() = default;
  constexpr explicit Crc32(std::uint32_t value) : value_(value) {}

  void update(Octets octets) { value_ = crc32_extend(value_, octets); }
  void update_copying(Octets octets, std::uint8_t* to) { value_ = crc32_copy(value_, octets, to); }
  // The CRC of all octets so far, already inverted.
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

[[nodiscard]] inline std::uint32_t crc32(Octets octets) { return crc32_extend(0, octets); }

}  // namespace rrdma::wire
