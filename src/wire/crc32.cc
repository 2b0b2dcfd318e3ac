#include "wire/crc32.h"

#include <isa-l/crc.h>

#include <cstring>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "wire/crc32_arm64.h"
#elif defined(__x86_64__)
#include "wire/crc32_x86.h"
#endif

namespace rrdma::wire {
namespace {

#if defined(__x86_64__)

const bool kHasUpperHalves = __builtin_cpu_supports("avx");

// ISA-L leaves values in the upper halves of the vector registers. Then, on some CPUs (Ice Lake and later),
// each switch between instructions that keep these halves and instructions that clear them takes 50 ns.
void clear_upper_halves() {
  if (!kHasUpperHalves) return;
  asm volatile("vzeroupper"
               :
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                 "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#else

void clear_upper_halves() {}

#endif

std::uint32_t by_isal(std::uint32_t crc, Octets octets) {
  // Do not pass an empty span to ISA-L: its pointer may be null.
  if (octets.empty()) return crc;
  const std::uint32_t sum = crc32_gzip_refl(crc, octets.data(), octets.size());
  clear_upper_halves();
  return sum;
}

#if defined(__aarch64__)

// The instructions are optional in ARMv8.0. Initialized before main; a sum computed even earlier uses ISA-L.
const bool kSums = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
const bool kFolds = kSums && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;

template <bool kCopies>
std::uint32_t by_instructions(std::uint32_t crc, Octets octets, std::uint8_t* to) {
  arm64::Stream<kCopies> stream{octets.data(), to};
  if (octets.size() >= arm64::kLongOctets && kFolds) return ~arm64::sum_long(~crc, stream, octets.size());
  return ~arm64::sum(~crc, stream, octets.size());
}

#elif defined(__x86_64__)

// Initialized before main; a sum computed even earlier uses ISA-L.
const bool kFolds = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") &&
                    !__builtin_cpu_supports("avx512f");

template <bool kCopies>
std::uint32_t by_folding(std::uint32_t crc, Octets octets, std::uint8_t* to) {
  const std::uint8_t* from = octets.data();
  crc = ~x86::sum_long<kCopies>(~crc, from, to, octets.size());
  const Octets rest = octets.subspan(static_cast<std::size_t>(from - octets.data()));
  if (kCopies && !rest.empty()) {
    std::memcpy(to, rest.data(), rest.size());
    return by_isal(crc, Octets(to, rest.size()));
  }
  return by_isal(crc, rest);
}

#endif

}  // namespace

std::uint32_t crc32_extend(std::uint32_t crc, Octets octets) {
#if defined(__aarch64__)
  if (kSums) return by_instructions<false>(crc, octets, nullptr);
#elif defined(__x86_64__)
  if (kFolds && octets.size() >= x86::kStep) return by_folding<false>(crc, octets, nullptr);
#endif
  return by_isal(crc, octets);
}

std::uint32_t crc32_copy(std::uint32_t crc, Octets octets, std::uint8_t* to) {
#if defined(__aarch64__)
  if (kSums) return by_instructions<true>(crc, octets, to);
#elif defined(__x86_64__)
  if (kFolds && octets.size() >= x86::kStep) return by_folding<true>(crc, octets, to);
#endif
  // Copy first and sum the copy, so that the sum matches it.
  if (!octets.empty()) std::memcpy(to, octets.data(), octets.size());
  return by_isal(crc, Octets(to, octets.size()));
}

}  // namespace rrdma::wire
