// Crc32: the CRC-32 of Ethernet (reflected, polynomial 0x04c11db7) over a message that arrives in
// pieces. The octets are summed by ISA-L; measured on a Neoverse V1 it takes 6 ns for anything up to
// 80 octets and runs at 19 GB/s from 256 octets on, so nothing here is written by hand.
// Does not know what the ICRC covers (see icrc.h).
#pragma once

#include <isa-l/crc.h>

#include <cstdint>

#include "base/octets.h"

namespace rrdma::wire {

class Crc32 {
 public:
  constexpr Crc32() = default;
  // Goes on from the value of an earlier sum.
  constexpr explicit Crc32(std::uint32_t value) : value_(value) {}

  void update(Octets octets) {
    // ISA-L is not told about nothing: a span without octets may carry a null pointer.
    if (!octets.empty()) value_ = crc32_gzip_refl(value_, octets.data(), octets.size());
  }
  // The CRC of all octets so far, already inverted: crc32("123456789") is 0xcbf43926.
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

[[nodiscard]] inline std::uint32_t crc32(Octets octets) {
  Crc32 sum;
  sum.update(octets);
  return sum.value();
}

}  // namespace rrdma::wire
