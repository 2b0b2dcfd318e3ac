// The content of messages: a stream of bytes derived from a key, so that the reader can check every byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace proof {

// A good 64-bit mixing function, also used as the random numbers of the test programs.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

void fill(std::uint8_t* octets, std::size_t count, std::uint64_t key, std::size_t from = 0);

// Returns the position of the first wrong byte; `count` if there is none.
[[nodiscard]] std::size_t first_wrong(const std::uint8_t* octets, std::size_t count, std::uint64_t key,
                                      std::size_t from = 0);

}  // namespace proof
