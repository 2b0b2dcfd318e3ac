// CRC-32 with ARMv8 instructions: `crc32x` sums eight bytes a cycle, and `pmull` (carry-less multiplication)
// folds 128 bytes into 128 bytes that have the same remainder. They use different units of the CPU, so a long
// message keeps both busy: each step folds 128 bytes and sums 64 (docs/adr/0005). Written in assembly,
// because GCC and clang share neither the intrinsics nor the target attribute. The caller checks that the CPU
// has the instructions.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/octets.h"
#include "wire/crc32_polynomial.h"

namespace rrdma::wire::arm64 {

inline std::uint32_t sum8(std::uint32_t crc, std::uint64_t octets) {
  asm(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(octets));
  return crc;
}
inline std::uint32_t sum4(std::uint32_t crc, std::uint32_t octets) {
  asm(".arch_extension crc\n\tcrc32w %w0, %w0, %w1" : "+r"(crc) : "r"(octets));
  return crc;
}
inline std::uint32_t sum1(std::uint32_t crc, std::uint8_t octet) {
  asm(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(crc) : "r"(static_cast<std::uint32_t>(octet)));
  return crc;
}
inline uint64x2_t multiply_low(uint64x2_t a, uint64x2_t b) {
  uint64x2_t product;
  asm(".arch_extension aes\n\tpmull %0.1q, %1.1d, %2.1d" : "=w"(product) : "w"(a), "w"(b));
  return product;
}
inline uint64x2_t multiply_high(uint64x2_t a, uint64x2_t b) {
  uint64x2_t product;
  asm(".arch_extension aes\n\tpmull2 %0.1q, %1.2d, %2.2d" : "=w"(product) : "w"(a), "w"(b));
  return product;
}

// The source and, if kCopies, the target of the copy. Pass it by value: if its address escaped, a stored byte
// might alias its pointers, and the compiler would reload them after every store.
template <bool kCopies>
struct Stream {
  const std::uint8_t* from;
  std::uint8_t* to;

  template <typename Word>
  Word take() {
    const auto word = load_native<Word>(from);
    from += sizeof word;
    if constexpr (kCopies) {
      store_native(to, word);
      to += sizeof word;
    }
    return word;
  }
  uint64x2_t take16() {
    const uint8x16_t octets = vld1q_u8(from);
    from += sizeof octets;
    if constexpr (kCopies) {
      vst1q_u8(to, octets);
      to += sizeof octets;
    }
    return vreinterpretq_u64_u8(octets);
  }
  Stream ahead(std::size_t octets) const { return {from + octets, kCopies ? to + octets : nullptr}; }
};

// The CRC register after `octets` more bytes, without the inversions at the start and end of a CRC.
template <bool kCopies>
std::uint32_t sum(std::uint32_t crc, Stream<kCopies> stream, std::size_t octets) {
  for (; octets >= 32; octets -= 32) {
    for (int i = 0; i < 4; ++i) crc = sum8(crc, stream.template take<std::uint64_t>());
  }
  for (; octets >= 8; octets -= 8) crc = sum8(crc, stream.template take<std::uint64_t>());
  for (; octets >= 4; octets -= 4) crc = sum4(crc, stream.template take<std::uint32_t>());
  for (; octets > 0; --octets) crc = sum1(crc, stream.template take<std::uint8_t>());
  return crc;
}

// x^bits in the form that `pmull` needs: the product of two reflected polynomials is one bit too low.
[[nodiscard]] constexpr std::uint64_t factor(unsigned bits) {
  return static_cast<std::uint64_t>(crc32_polynomial::power_of_x(bits)) << 1;
}

// Folds 16 bytes into the 16 bytes that stand `kOctets` bytes further on.
template <unsigned kOctets>
uint64x2_t fold(uint64x2_t early, uint64x2_t late) {
  const uint64x2_t factors = {factor(kOctets * 8 + 32), factor(kOctets * 8 - 32)};
  return veorq_u64(veorq_u64(multiply_low(early, factors), late), multiply_high(early, factors));
}

// A step of a long message: folds eight registers of 16 bytes and sums 64 bytes.
inline constexpr unsigned kRegisters = 8;
inline constexpr unsigned kFolded = kRegisters * 16;
inline constexpr unsigned kSummed = 64;
inline constexpr std::size_t kStep = kFolded + kSummed;
inline constexpr std::size_t kMostSteps = 64;
// For shorter messages, combining the parts costs more than it saves.
inline constexpr std::size_t kLongOctets = 2 * kStep;

// The factors for a register that is followed by `steps` times kSummed bytes.
inline constexpr auto kFactorsBehind = [] {
  std::array<std::uint64_t, kMostSteps + 1> factors{};
  for (unsigned steps = 1; steps <= kMostSteps; ++steps) factors[steps] = factor(steps * kSummed * 8 - 32);
  return factors;
}();

inline uint64x2_t joined(const std::array<uint64x2_t, kRegisters>& a) {
  const uint64x2_t early = fold<32>(fold<16>(a[0], a[1]), fold<16>(a[2], a[3]));
  const uint64x2_t late = fold<32>(fold<16>(a[4], a[5]), fold<16>(a[6], a[7]));
  return fold<64>(early, late);
}

// The CRC register after `steps` steps, at most kMostSteps. Folds the first `steps * kFolded` bytes, sums the
// bytes behind them from zero, and adds the two parts.
template <bool kCopies>
std::uint32_t fold_and_sum(std::uint32_t crc, Stream<kCopies> stream, std::size_t steps) {
  Stream<kCopies> behind = stream.ahead(steps * kFolded);
  const std::uint8_t* const end = behind.from;
  std::uint32_t summed = 0;
  const auto sum_part = [&] {
#pragma GCC unroll 8
    for (unsigned i = 0; i < kSummed; i += 8) summed = sum8(summed, behind.template take<std::uint64_t>());
  };
  std::array<uint64x2_t, kRegisters> folded;
#pragma GCC unroll 8
  for (unsigned i = 0; i < kRegisters; ++i) folded[i] = stream.take16();
  folded[0] = veorq_u64(folded[0], uint64x2_t{crc, 0});
  sum_part();
  while (stream.from != end) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < kRegisters; ++i) folded[i] = fold<kFolded>(folded[i], stream.take16());
    sum_part();
  }
  const uint64x2_t rest = joined(folded);
  const std::uint32_t before = sum8(sum8(0, vgetq_lane_u64(rest, 0)), vgetq_lane_u64(rest, 1));
  const uint64x2_t moved = multiply_low(uint64x2_t{before, 0}, uint64x2_t{kFactorsBehind[steps], 0});
  return sum8(0, vgetq_lane_u64(moved, 0)) ^ summed;
}

template <bool kCopies>
std::uint32_t sum_long(std::uint32_t crc, Stream<kCopies> stream, std::size_t octets) {
  while (octets >= kLongOctets) {
    const std::size_t steps = std::min(octets / kStep, kMostSteps);
    crc = fold_and_sum(crc, stream, steps);
    stream = stream.ahead(steps * kStep);
    octets -= steps * kStep;
  }
  return sum(crc, stream, octets);
}

}  // namespace rrdma::wire::arm64
