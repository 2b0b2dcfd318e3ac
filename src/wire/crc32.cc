#include "wire/crc32.h"

#include <isa-l/crc.h>

#include <cstring>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace rrdma::wire {
namespace {

std::uint32_t by_isal(std::uint32_t crc, Octets octets) {
  // ISA-L is not told about nothing: a span without octets may carry a null pointer.
  return octets.empty() ? crc : crc32_gzip_refl(crc, octets.data(), octets.size());
}

#if defined(__aarch64__)

// The instructions are optional in ARMv8.0. Read before main; a sum made even earlier goes to ISA-L.
const bool kHasCrcInstructions = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;

// As assembly, because GCC and clang have neither the intrinsics nor the target attribute in common.
std::uint32_t step8(std::uint32_t crc, std::uint64_t octets) {
  asm(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(octets));
  return crc;
}
std::uint32_t step4(std::uint32_t crc, std::uint32_t octets) {
  asm(".arch_extension crc\n\tcrc32w %w0, %w0, %w1" : "+r"(crc) : "r"(octets));
  return crc;
}
std::uint32_t step1(std::uint32_t crc, std::uint8_t octet) {
  asm(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(crc) : "r"(static_cast<std::uint32_t>(octet)));
  return crc;
}

// Loads the next Word, which also goes to `to` if it is wanted there.
template <typename Word, bool kCopies>
Word take(const std::uint8_t*& from, std::uint8_t*& to) {
  const auto word = load_native<Word>(from);
  from += sizeof word;
  if constexpr (kCopies) {
    store_native(to, word);
    to += sizeof word;
  }
  return word;
}

template <bool kCopies>
std::uint32_t by_instructions(std::uint32_t crc, Octets octets, std::uint8_t* to) {
  const std::uint8_t* p = octets.data();
  std::size_t left = octets.size();
  crc = ~crc;
  for (; left >= 32; left -= 32) {
    crc = step8(crc, take<std::uint64_t, kCopies>(p, to));
    crc = step8(crc, take<std::uint64_t, kCopies>(p, to));
    crc = step8(crc, take<std::uint64_t, kCopies>(p, to));
    crc = step8(crc, take<std::uint64_t, kCopies>(p, to));
  }
  for (; left >= 8; left -= 8) crc = step8(crc, take<std::uint64_t, kCopies>(p, to));
  for (; left >= 4; left -= 4) crc = step4(crc, take<std::uint32_t, kCopies>(p, to));
  for (; left > 0; --left) crc = step1(crc, take<std::uint8_t, kCopies>(p, to));
  return ~crc;
}

#endif

}  // namespace

std::uint32_t crc32_extend(std::uint32_t crc, Octets octets) {
#if defined(__aarch64__)
  if (kHasCrcInstructions) return by_instructions<false>(crc, octets, nullptr);
#endif
  return by_isal(crc, octets);
}

std::uint32_t crc32_copy(std::uint32_t crc, Octets octets, std::uint8_t* to) {
#if defined(__aarch64__)
  if (kHasCrcInstructions) return by_instructions<true>(crc, octets, to);
#endif
  // The copy first: it is its octets that are summed.
  if (!octets.empty()) std::memcpy(to, octets.data(), octets.size());
  return by_isal(crc, Octets(to, octets.size()));
}

}  // namespace rrdma::wire
