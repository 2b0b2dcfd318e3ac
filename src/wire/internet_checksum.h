// InternetChecksum (RFC 1071): the one's complement sum of 16-bit words that IPv4 headers and UDP use. Pieces
// may have odd lengths; the sum then continues in the middle of a word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/octets.h"

namespace rrdma::wire {

class InternetChecksum {
 public:
  void add(Octets octets);
  // REQUIRES: an even number of bytes so far.
  void add_be16(std::uint16_t word) { sum_ += word; }

  // The sum with its carries folded, not inverted. It is 0xffff over data that includes a correct checksum.
  [[nodiscard]] std::uint16_t folded() const;
  [[nodiscard]] std::uint16_t inverted() const { return static_cast<std::uint16_t>(~folded()); }

 private:
  std::uint64_t sum_ = 0;  // cannot overflow below 2^48 words
  bool odd_ = false;       // the next byte is the lower half of a word
};

}  // namespace rrdma::wire
