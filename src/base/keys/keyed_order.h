// KeyedOrder: a keyed permutation of the numbers of a given width, for numbers that peers see and that must
// not return soon: QPNs, communication IDs, ports. Each number comes once before any comes again, and a peer
// that knows some of them cannot compute the next.
#pragma once

#include <cstdint>

#include "base/keys/key_source.h"

namespace rrdma {

class KeyedOrder {
 public:
  explicit KeyedOrder(KeySource keys) : key_low_(keys.next_wide()), key_high_(keys.next_wide()) {}

  // REQUIRES: bits in 1..32; index < 1 << bits. For an odd number of bits, it walks the cycle of the next
  // wider permutation until the number is in range.
  [[nodiscard]] std::uint32_t operator()(std::uint32_t index, unsigned bits) const {
    std::uint32_t at = permuted(index, (bits + 1) / 2);
    while (std::uint64_t{at} >> bits != 0) at = permuted(at, (bits + 1) / 2);
    return at;
  }

 private:
  // A Feistel network with SipHash as the round function. Ten rounds, as other ciphers of so few bits have
  // (NIST SP 800-38G).
  static constexpr std::uint64_t kRounds = 10;

  [[nodiscard]] std::uint32_t permuted(std::uint32_t index, unsigned half) const {
    const std::uint32_t mask = (1u << half) - 1;
    std::uint32_t left = index >> half & mask, right = index & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t hash = keyed_hash(key_low_, key_high_, right | round << 32);
      const std::uint32_t next = left ^ (static_cast<std::uint32_t>(hash) & mask);
      left = right;
      right = next;
    }
    return left << half | right;
  }

  std::uint64_t key_low_, key_high_;
};

}  // namespace rrdma
