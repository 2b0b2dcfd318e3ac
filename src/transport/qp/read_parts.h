// ReadParts: the parts of a READ that a responder has still to send, as byte offsets in ascending order. A
// peer that misses single responses asks for each of them. Parts that overlap or touch become one. If there
// is no room for another part, the new one is joined with its nearest neighbour: what lies between is sent
// again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"

namespace rrdma::transport {

struct ReadPart {
  std::uint32_t next = 0;  // the first byte to send
  std::uint32_t end = 0;   // may equal `next`: a READ of no bytes has a response, too
  friend bool operator==(const ReadPart&, const ReadPart&) = default;
};

class ReadParts {
 public:
  // The only part from now on.
  void set(ReadPart part) {
    parts_[0] = part;
    count_ = 1;
  }
  void add(ReadPart part) {
    std::size_t at = 0;  // the first part that ends at the new one or behind it
    while (at < count_ && parts_[at].end < part.next) ++at;
    std::size_t behind = at;  // the first part that begins behind the new one
    while (behind < count_ && parts_[behind].next <= part.end) ++behind;
    if (at == behind && count_ == kPartsMax) {
      const bool before =
          at != 0 && (at == count_ || part.next - parts_[at - 1].end <= parts_[at].next - part.end);
      if (before) {
        --at;
      } else {
        ++behind;
      }
    }
    if (at == behind) {
      std::copy_backward(parts_.begin() + at, parts_.begin() + count_, parts_.begin() + count_ + 1);
      ++count_;
    } else {
      part = {std::min(part.next, parts_[at].next), std::max(part.end, parts_[behind - 1].end)};
      if (behind != at + 1)
        std::copy(parts_.begin() + behind, parts_.begin() + count_, parts_.begin() + at + 1);
      count_ = static_cast<std::uint8_t>(count_ - (behind - at - 1));
    }
    parts_[at] = part;
  }

  // REQUIRES, for all below: not empty.
  [[nodiscard]] const ReadPart& first() const {
    RRDMA_ASSERT(count_ != 0);
    return parts_[0];
  }
  // The next bytes of the first part were sent. True if that was its end.
  bool advance(std::uint32_t octets) {
    parts_[0].next += octets;
    if (parts_[0].next != parts_[0].end) return false;
    std::copy(parts_.begin() + 1, parts_.begin() + count_, parts_.begin());
    --count_;
    return true;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::span<const ReadPart> all() const { return std::span(parts_).first(count_); }

 private:
  static constexpr std::size_t kPartsMax = 5;
  std::array<ReadPart, kPartsMax> parts_;
  std::uint8_t count_ = 0;
};

}  // namespace rrdma::transport
