// QpnOrder: the order in which a process allocates the QPNs of its slot. Each number comes once before any is
// repeated, so a recently destroyed one does not return soon. The order is secret: seeing some numbers does not
// reveal the next.
#pragma once

#include <cstdint>

namespace rrdma::nic {

class QpnOrder {
 public:
  explicit QpnOrder(std::uint64_t key) : key_(key) {}

  // A permutation of the numbers of `bits` bits. If `bits` is odd, it follows the cycle of the permutation of one bit
  // more until it is back in range.
  [[nodiscard]] std::uint32_t operator()(std::uint32_t index, unsigned bits) const {
    std::uint32_t at = permuted(index, (bits + 1) / 2);
    while (at >> bits != 0) at = permuted(at, (bits + 1) / 2);
    return at;
  }

 private:
  // A Feistel network of four rounds over two halves of `half` bits.
  [[nodiscard]] std::uint32_t permuted(std::uint32_t index, unsigned half) const {
    const std::uint32_t mask = (1u << half) - 1;
    std::uint32_t left = index >> half & mask, right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint32_t next = left ^ (mixed(right, round) & mask);
      left = right;
      right = next;
    }
    return left << half | right;
  }

  [[nodiscard]] std::uint32_t mixed(std::uint32_t half, std::uint64_t round) const {
    std::uint64_t value = (key_ ^ (half | round << 32)) * 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 29) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 32) * (key_ | 1);
    return static_cast<std::uint32_t>(value >> 40);
  }

  const std::uint64_t key_;
};

}  // namespace rrdma::nic
