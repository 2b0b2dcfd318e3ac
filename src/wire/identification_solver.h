// IdentificationSolver: the ICRC check of IPv4 packets whose identification the socket hides.
//
// CRC is linear. The sum is made with identification 0 and DF set; its difference from the received ICRC
// comes from the two octets of the identification alone, carried through the n octets behind them, each
// of which multiplied the CRC register by x^8. Multiplying the difference by x^-8n takes it back to
// where it entered: the lower half of the register is then the identification, the upper half (the
// octets of flags and offset) must be zero. So every identification is found in one multiplication, and
// a 16-bit check remains; when the identification is one that was expected, all 32 bits were checked.
//
// The multiplication by a known factor is eight lookups; the tables of the last few packet lengths are
// kept. One solver belongs to one receiving lane: it is not safe to share between threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/octets.h"
#include "wire/icrc.h"

namespace rrdma::wire {

enum class IcrcVerdict : std::uint8_t {
  kRight,   // with identification 0 or the expected one
  kSolved,  // with some other identification
  kWrong,   // with none
};

struct SolvedIcrc {
  IcrcVerdict verdict = IcrcVerdict::kWrong;
  std::uint16_t identification = 0;  // 0 when wrong
  friend bool operator==(const SolvedIcrc&, const SolvedIcrc&) = default;
};

class IdentificationSolver {
 public:
  // `transport` is from the BTH to the end of the ICRC; `expected` is the sender's last identification
  // plus one, where the caller keeps it. REQUIRES: a seed of IPv4.
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
