// FlightStore: the rings that flight logs grow into, for all QPs of an engine. A ring is set aside when a QP is
// connected, because the engine takes no memory while packets go; but its pages are not touched before it is used.
// Most QPs of thousands never have more under way than fits into the QP itself.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/assert.h"
#include "base/instant.h"

namespace rrdma::transport {

enum class PacketFate : std::uint8_t {
  kUnderWay,
  kArrived,  // at the peer, which has not executed it yet, or has, and its response is not here
  kLost,     // to be sent again
  kDone,
};

struct PacketRecord {
  Instant sent_at;
  PacketFate fate = PacketFate::kUnderWay;
  bool again = false;         // sent more than once
  bool response = false;      // finished by a response, not by an acknowledgement
  bool ends_request = false;  // the last PSN of a READ or ATOMIC on the wire
  bool asked = false;         // wanted an answer; of a probe: before it was one
  bool probe = false;  // sent again without a sign that it was lost: an answer may be to the copy before
  std::uint16_t behind = 0;  // it was sent again behind so many PSNs from this one on
};

class FlightStore {
 public:
  // One more ring of so many records, a power of two, can be taken.
  void reserve(std::uint32_t records) {
    Size& size = size_of(records);
    if (++size.reserved > size.rings) add_block(size, records);
  }
  void unreserve(std::uint32_t records) { --size_of(records).reserved; }

  // REQUIRES: one that was reserved. What is in it is not known.
  PacketRecord* take(std::uint32_t records) {
    Size& size = size_of(records);
    RRDMA_ASSERT(!size.free.empty());
    PacketRecord* const ring = size.free.back();
    size.free.pop_back();
    return ring;
  }
  void give_back(PacketRecord* ring, std::uint32_t records) { size_of(records).free.push_back(ring); }

 private:
  struct Freed {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  struct Size {
    std::vector<std::unique_ptr<void, Freed>> blocks;
    std::vector<PacketRecord*> free;
    std::uint32_t rings = 0;
    std::uint32_t reserved = 0;
  };
  static constexpr std::size_t kBlockOctets = 256 * 1024;

  Size& size_of(std::uint32_t records) { return sizes_[static_cast<std::size_t>(std::countr_zero(records))]; }

  void add_block(Size& size, std::uint32_t records) {
    const std::size_t octets = records * sizeof(PacketRecord);
    const std::size_t rings = octets < kBlockOctets ? kBlockOctets / octets : 1;
    size.free.reserve(size.rings + rings);
    // Records are given their lives by assignment: nothing is written here.
    size.blocks.emplace_back(::operator new(rings* octets));
    auto* ring = static_cast<PacketRecord*>(size.blocks.back().get());
    for (std::size_t i = 0; i < rings; ++i, ring += records) size.free.push_back(ring);
    size.rings += static_cast<std::uint32_t>(rings);
  }

  std::array<Size, 32> sizes_;
};

}  // namespace rrdma::transport
