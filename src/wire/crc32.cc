#include "wire/crc32.h"

#include <isa-l/crc.h>

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

std::uint32_t by_instructions(std::uint32_t crc, Octets octets) {
  const std::uint8_t* p = octets.data();
  std::size_t left = octets.size();
  crc = ~crc;
  for (; left >= 32; left -= 32, p += 32) {
    crc = step8(crc, load_native<std::uint64_t>(p));
    crc = step8(crc, load_native<std::uint64_t>(p + 8));
    crc = step8(crc, load_native<std::uint64_t>(p + 16));
    crc = step8(crc, load_native<std::uint64_t>(p + 24));
  }
  for (; left >= 8; left -= 8, p += 8) crc = step8(crc, load_native<std::uint64_t>(p));
  for (; left >= 4; left -= 4, p += 4) crc = step4(crc, load_native<std::uint32_t>(p));
  for (; left > 0; --left, ++p) crc = step1(crc, *p);
  return ~crc;
}

#endif

}  // namespace

std::uint32_t crc32_extend(std::uint32_t crc, Octets octets) {
#if defined(__aarch64__)
  if (kHasCrcInstructions) return by_instructions(crc, octets);
#endif
  return by_isal(crc, octets);
}

}  // namespace rrdma::wire
