#include "wire/identification_solver.h"

#include "base/assert.h"
#include "wire/crc32_polynomial.h"
#include "wire/ipv4.h"

namespace rrdma::wire {
namespace {

// The register holds four bytes. With the difference rolled back to the identification, they are its two
// bytes (first byte lowest), then flags and offset.
constexpr std::size_t kIdentificationOffset = 4;

}  // namespace

SolvedIcrc IdentificationSolver::check(const IcrcSeed& seed, Octets transport, std::uint16_t expected) {
  RRDMA_ASSERT(seed.network() == Network::kIpv4);
  if (transport.size() < kBthOctets + kIcrcOctets) return {};
  const Octets covered = transport.first(transport.size() - kIcrcOctets);
  const std::size_t octets_back = seed.octets() + covered.size() - kIdentificationOffset;
  if (octets_back > 0xffff) return {};
  const std::uint32_t difference = seed.icrc(covered) ^ load_icrc(covered.data() + covered.size());
  if (difference == 0) return {IcrcVerdict::kRight, 0};

  std::uint32_t source = 0;
  std::uint32_t nibbles = difference;
  for (const auto& row : products_for(static_cast<std::uint16_t>(octets_back)).rows) {
    source ^= row[nibbles & 0xf];
    nibbles >>= 4;
  }
  if (source >> 16 != 0) return {};
  const std::uint16_t identification = swap_octets(static_cast<std::uint16_t>(source));
  return {identification == expected ? IcrcVerdict::kRight : IcrcVerdict::kSolved, identification};
}

const IdentificationSolver::Products& IdentificationSolver::products_for(std::uint16_t octets_back) {
  // Packet lengths differ by multiples of four bytes.
  Products& products = slots_[(octets_back / 4) % kSlots];
  if (products.octets_back == octets_back) return products;
  products.octets_back = octets_back;
  // Bit 31 of the register is x^0: the product of bit b is the factor times x^(31 - b).
  std::uint32_t product = crc32_polynomial::roll_back_factor(octets_back);
  for (std::size_t bit = 32; bit-- > 0; product = crc32_polynomial::times_x(product)) {
    auto& row = products.rows[bit / 4];
    row[std::size_t{1} << bit % 4] = product;
  }
  for (auto& row : products.rows) {
    for (std::size_t value = 3; value < 16; ++value) {
      const std::size_t lowest = value & -value;
      if (lowest != value) row[value] = row[lowest] ^ row[value ^ lowest];
    }
  }
  return products;
}

}  // namespace rrdma::wire
