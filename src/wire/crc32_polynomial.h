// Arithmetic modulo the CRC-32 polynomial, in the reflected order of the CRC register (bit 31 is the
// coefficient of x^0). A zero byte after a message multiplies the register by x^8. A power of x^-8 therefore
// carries a difference between two CRCs back to the position in the message that caused it. All constexpr;
// the tables take 2 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rrdma::wire::crc32_polynomial {

inline constexpr std::uint32_t kPolynomial = 0xedb88320;
inline constexpr std::uint32_t kOne = 0x80000000;

[[nodiscard]] constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a & 1) != 0 ? (a >> 1) ^ kPolynomial : a >> 1;
}
// The inverse of times_x: the reduction set bit 31 exactly if a bit was shifted out.
[[nodiscard]] constexpr std::uint32_t over_x(std::uint32_t a) {
  return (a & kOne) != 0 ? ((a ^ kPolynomial) << 1) | 1 : a << 1;
}

[[nodiscard]] constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & kOne) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

[[nodiscard]] constexpr std::uint32_t power_of_x(unsigned exponent) {
  std::uint32_t power = kOne;
  for (std::uint32_t square = times_x(kOne); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

[[nodiscard]] constexpr std::array<std::uint32_t, 256> powers_of(std::uint32_t base) {
  std::array<std::uint32_t, 256> powers{};
  std::uint32_t power = kOne;
  for (auto& entry : powers) {
    entry = power;
    power = multiply(power, base);
  }
  return powers;
}

[[nodiscard]] constexpr std::uint32_t octet_back() {
  std::uint32_t a = kOne;
  for (int bit = 0; bit < 8; ++bit) a = over_x(a);
  return a;
}
inline constexpr std::array<std::uint32_t, 256> kOctetsBack = powers_of(octet_back());
inline constexpr std::array<std::uint32_t, 256> kPagesBack =
    powers_of(multiply(kOctetsBack[255], kOctetsBack[1]));

// `x^(-8 * octets)`: the factor that undoes that many zero bytes.
[[nodiscard]] constexpr std::uint32_t roll_back_factor(std::uint16_t octets) {
  return multiply(kOctetsBack[octets & 0xff], kPagesBack[octets >> 8]);
}

}  // namespace rrdma::wire::crc32_polynomial
