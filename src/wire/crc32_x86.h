// CRC-32 with VPCLMULQDQ on 256-bit registers, for CPUs that have it without AVX-512 (Zen 3, Alder Lake).
// ISA-L uses it with AVX-512 only (docs/adr/0005). Each step folds 256 bytes into the 256 bytes behind them,
// which then have the same remainder. The caller checks that the CPU has the instructions.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "wire/crc32_polynomial.h"

namespace rrdma::wire::x86 {

#define RRDMA_FOLDING [[gnu::target("avx2,pclmul,vpclmulqdq")]] inline

inline constexpr unsigned kRegisters = 8;
inline constexpr unsigned kRegisterOctets = 32;
inline constexpr std::size_t kStep = std::size_t{kRegisters} * kRegisterOctets;

// x^bits in the form that the multiplication needs: the product of two reflected polynomials is one bit too
// low.
[[nodiscard]] constexpr long long factor(unsigned bits) {
  return static_cast<long long>(crc32_polynomial::power_of_x(bits)) << 1;
}

// The polynomial with its highest coefficient, and the quotient of x^64 by it, both reflected.
inline constexpr std::uint64_t kWholePolynomial = std::uint64_t{crc32_polynomial::kPolynomial} << 1 | 1;
[[nodiscard]] constexpr std::uint64_t quotient_of_x64() {
  std::uint64_t quotient = 1;  // of x^32
  std::uint32_t rest = crc32_polynomial::kPolynomial;
  for (int bit = 1; bit <= 32; ++bit) {
    quotient |= static_cast<std::uint64_t>(rest & 1) << bit;
    rest = crc32_polynomial::times_x(rest);
  }
  return quotient;
}
static_assert(quotient_of_x64() == 0x1f7011641);

template <unsigned kOctets>
RRDMA_FOLDING __m256i fold(__m256i early, __m256i late) {
  constexpr long long kLow = factor(kOctets * 8 + 32), kHigh = factor(kOctets * 8 - 32);
  const __m256i factors = _mm256_set_epi64x(kHigh, kLow, kHigh, kLow);
  const __m256i low = _mm256_clmulepi64_epi128(early, factors, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(early, factors, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), late);
}

template <bool kCopies>
RRDMA_FOLDING __m256i take(const std::uint8_t*& from, std::uint8_t*& to) {
  const __m256i octets = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  from += kRegisterOctets;
  if constexpr (kCopies) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), octets);
    to += kRegisterOctets;
  }
  return octets;
}

// The remainder of 32 bytes: 256 to 128, 96 and 64 bits, then Barrett's reduction.
RRDMA_FOLDING std::uint32_t remainder_of(__m256i folded) {
  constexpr long long kLow = factor(128 + 32), kHigh = factor(128 - 32), kWord = factor(64);
  constexpr auto kPolynomial = static_cast<long long>(kWholePolynomial);
  constexpr auto kQuotient = static_cast<long long>(quotient_of_x64());
  const __m128i by_16 = _mm_set_epi64x(kHigh, kLow);
  const __m128i early = _mm256_castsi256_si128(folded), late = _mm256_extracti128_si256(folded, 1);
  __m128i rest = _mm_xor_si128(
      _mm_xor_si128(_mm_clmulepi64_si128(early, by_16, 0x00), _mm_clmulepi64_si128(early, by_16, 0x11)),
      late);
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  rest = _mm_xor_si128(_mm_srli_si128(rest, 8), _mm_clmulepi64_si128(rest, by_16, 0x10));
  rest = _mm_xor_si128(_mm_srli_si128(rest, 4),
                       _mm_clmulepi64_si128(_mm_and_si128(rest, low_word), _mm_set_epi64x(0, kWord), 0x00));
  const __m128i reduction = _mm_set_epi64x(kQuotient, kPolynomial);
  __m128i multiple = _mm_clmulepi64_si128(_mm_and_si128(rest, low_word), reduction, 0x10);
  multiple = _mm_clmulepi64_si128(_mm_and_si128(multiple, low_word), reduction, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(rest, multiple), 1));
}

// The CRC register after the next bytes, as many as fill whole registers; without the inversions at the start
// and end of a CRC. Advances `from`, and copies to `to` if kCopies. REQUIRES: at least kStep bytes.
template <bool kCopies>
RRDMA_FOLDING std::uint32_t sum_long(std::uint32_t crc, const std::uint8_t*& from, std::uint8_t*& to,
                                     std::size_t octets) {
  __m256i folded[kRegisters];  // std::array<__m256i> loses the type's attributes, and GCC warns
#pragma GCC unroll 8
  for (unsigned i = 0; i < kRegisters; ++i) folded[i] = take<kCopies>(from, to);
  folded[0] = _mm256_xor_si256(folded[0], _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, static_cast<int>(crc)));
  for (octets -= kStep; octets >= kStep; octets -= kStep) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < kRegisters; ++i) folded[i] = fold<kStep>(folded[i], take<kCopies>(from, to));
  }
  const __m256i first = fold<64>(fold<32>(folded[0], folded[1]), fold<32>(folded[2], folded[3]));
  const __m256i last = fold<64>(fold<32>(folded[4], folded[5]), fold<32>(folded[6], folded[7]));
  __m256i rest = fold<128>(first, last);
  for (; octets >= kRegisterOctets; octets -= kRegisterOctets) rest = fold<32>(rest, take<kCopies>(from, to));
  const std::uint32_t sum = remainder_of(rest);
  _mm256_zeroupper();
  return sum;
}

#undef RRDMA_FOLDING

}  // namespace rrdma::wire::x86
