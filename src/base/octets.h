// `Octets`: views of raw memory, and big-endian loads and stores. Everything on the wire is big-endian unless
// a comment says otherwise.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace rrdma {

using Octets = std::span<const std::uint8_t>;
using MutableOctets = std::span<std::uint8_t>;

template <typename T>
[[nodiscard]] constexpr T swap_octets(T value) {
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(value));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(value));
  } else {
    static_assert(sizeof(T) == 8);
    return static_cast<T>(__builtin_bswap64(value));
  }
}

template <typename T>
[[nodiscard]] constexpr T big_endian(T value) {
  if constexpr (std::endian::native == std::endian::little) {
    return swap_octets(value);
  } else {
    return value;
  }
}

template <typename T>
[[nodiscard]] inline T load_native(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
inline void store_native(std::uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

[[nodiscard]] inline std::uint16_t load_be16(const std::uint8_t* from) {
  return big_endian(load_native<std::uint16_t>(from));
}
[[nodiscard]] inline std::uint32_t load_be24(const std::uint8_t* from) {
  return static_cast<std::uint32_t>(from[0]) << 16 | static_cast<std::uint32_t>(from[1]) << 8 | from[2];
}
[[nodiscard]] inline std::uint32_t load_be32(const std::uint8_t* from) {
  return big_endian(load_native<std::uint32_t>(from));
}
[[nodiscard]] inline std::uint64_t load_be64(const std::uint8_t* from) {
  return big_endian(load_native<std::uint64_t>(from));
}
inline void store_be16(std::uint8_t* to, std::uint16_t value) { store_native(to, big_endian(value)); }
inline void store_be24(std::uint8_t* to, std::uint32_t value) {
  to[0] = static_cast<std::uint8_t>(value >> 16);
  to[1] = static_cast<std::uint8_t>(value >> 8);
  to[2] = static_cast<std::uint8_t>(value);
}
inline void store_be32(std::uint8_t* to, std::uint32_t value) { store_native(to, big_endian(value)); }
inline void store_be64(std::uint8_t* to, std::uint64_t value) { store_native(to, big_endian(value)); }

}  // namespace rrdma
