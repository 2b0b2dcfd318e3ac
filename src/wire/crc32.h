// Crc32: the CRC-32 of Ethernet (reflected, polynomial 0x04c11db7) over a message that arrives in pieces.
// ISA-L computes it; on arm64 the CPU's own instructions do (docs/adr/0005). icrc.h states what the ICRC
// covers.
#pragma once

#include <cstdint>

#include "base/octets.h"

namespace rrdma::wire {

// Continues from `crc`, the value of an earlier sum or 0, over `octets`. crc32_extend(0, "123456789") is
// 0xcbf43926.
[[nodiscard]] std::uint32_t crc32_extend(std::uint32_t crc, Octets octets);

// The same, and copies the bytes to `to`. Each byte is read once, so that the sum matches the copy even if
// another thread writes to the source. REQUIRES: source and target do not overlap.
[[nodiscard]] std::uint32_t crc32_copy(std::uint32_t crc, Octets octets, std::uint8_t* to);

class Crc32 {
 public:
  constexpr Crc32() = default;
  constexpr explicit Crc32(std::uint32_t value) : value_(value) {}

  void update(Octets octets) { value_ = crc32_extend(value_, octets); }
  void update_copying(Octets octets, std::uint8_t* to) { value_ = crc32_copy(value_, octets, to); }
  // The CRC of all bytes so far, already inverted.
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

[[nodiscard]] inline std::uint32_t crc32(Octets octets) { return crc32_extend(0, octets); }

}  // namespace rrdma::wire
