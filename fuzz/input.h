// Input: the bytes of a fuzz target as a sequence of choices. Reads beyond the end return zeros.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/octets.h"

namespace rrdma::fuzz {

class Input {
 public:
  explicit Input(Octets octets) : octets_(octets) {}
  [[nodiscard]] bool empty() const { return octets_.empty(); }
  std::uint8_t octet() {
    if (octets_.empty()) return 0;
    const std::uint8_t first = octets_.front();
    octets_ = octets_.subspan(1);
    return first;
  }
  std::uint8_t below(std::uint32_t bound) { return static_cast<std::uint8_t>(octet() % bound); }
  std::uint32_t word() {
    const std::uint32_t high = octet();
    return high << 8 | octet();
  }
  Octets take(std::size_t length) {
    const Octets head = octets_.first(std::min(length, octets_.size()));
    octets_ = octets_.subspan(head.size());
    return head;
  }

 private:
  Octets octets_;
};

}  // namespace rrdma::fuzz
