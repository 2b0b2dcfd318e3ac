// Patterns of distinguishable bytes: byte i of pattern `id` is a function of both, the same on every machine.
// Misplaced data, data of another message and altered data never look right.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/octets.h"

namespace rrdma::sim {

[[nodiscard]] inline std::uint64_t pattern_word(std::uint64_t id, std::uint64_t index) {
  std::uint64_t z = id * 0xd6e8feb86659fd93ULL + index * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ULL;
  return z ^ (z >> 32);
}

[[nodiscard]] inline std::uint8_t pattern_octet(std::uint64_t id, std::uint64_t offset) {
  return static_cast<std::uint8_t>(pattern_word(id, offset / 8) >> (offset % 8 * 8));
}

// Writes bytes [offset, offset + to.size()) of the pattern.
inline void fill_pattern(MutableOctets to, std::uint64_t id, std::uint64_t offset) {
  std::size_t i = 0;
  for (; i < to.size() && (offset + i) % 8 != 0; ++i) to[i] = pattern_octet(id, offset + i);
  for (; i + 8 <= to.size(); i += 8) {
    std::uint64_t word = pattern_word(id, (offset + i) / 8);
    if constexpr (std::endian::native == std::endian::big) word = swap_octets(word);
    std::memcpy(to.data() + i, &word, 8);
  }
  for (; i < to.size(); ++i) to[i] = pattern_octet(id, offset + i);
}

}  // namespace rrdma::sim
