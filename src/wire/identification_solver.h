// IdentificationSolver: the ICRC check for IPv4 packets whose identification the socket hides.
//
// CRC is linear. The sum is computed with identification 0 and DF set. Its difference from the received ICRC
// then comes only from the two bytes of the identification. Each of the n bytes behind them multiplied the
// CRC register by x^8. Multiplying the difference by x^-8n carries it back to its origin. The lower half of
// the register is then the identification; the upper half (flags and offset) must be zero. One multiplication
// thus finds any identification and leaves a 16-bit check. If the identification was the expected one, all 32
// bits were checked.
//
// The multiplication by a known factor is eight lookups; the tables of the last few packet lengths are
// cached. Each receiving lane owns one solver; it is not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "wire/icrc.h"

namespace rrdma::wire {

enum class IcrcVerdict : std::uint8_t {
  kRight,   // with identification 0 or the expected one
  kSolved,  // with another identification
  kWrong,   // with no identification
};

struct SolvedIcrc {
  IcrcVerdict verdict = IcrcVerdict::kWrong;
  std::uint16_t identification = 0;  // 0 if wrong
  friend bool operator==(const SolvedIcrc&, const SolvedIcrc&) = default;
};

class IdentificationSolver {
 public:
  // `transport` is from the BTH to the end of the ICRC. `expected` is the sender's last identification plus
  // one, if the caller tracks it. REQUIRES: an IPv4 seed.
  [[nodiscard]] SolvedIcrc check(const IcrcSeed& seed, Octets transport, std::uint16_t expected = 0);

 private:
  static constexpr std::size_t kSlots = 16;  // 8 KiB: a flow has two or three packet lengths
  // Row i holds the products of the factor with the 16 values of nibble i of the register.
  struct Products {
    std::uint16_t octets_back = 0;  // 0: empty
    std::array<std::array<std::uint32_t, 16>, 8> rows{};
  };
  [[nodiscard]] const Products& products_for(std::uint16_t octets_back);

  std::array<Products, kSlots> slots_{};
};

}  // namespace rrdma::wire
