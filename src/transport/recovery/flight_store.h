// FlightStore: owns the rings into which the flight logs of all QPs of an engine grow. A ring is reserved
// when a QP connects, because the engine does not allocate while packets flow. Its pages stay untouched until
// first use: most QPs never have more packets in flight than fit into the QP itself.
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
  kArrived,  // the peer has it but has not executed it, or its response is not here yet
  kLost,     // to be sent again
  kDone,
};

struct PacketRecord {
  Instant sent_at;
  PacketFate fate = PacketFate::kUnderWay;
  bool again = false;         // sent more than once
  bool response = false;      // finished by a response, not by an acknowledgement
  bool ends_request = false;  // the last PSN of a READ or ATOMIC on the wire
  bool asked = false;         // requested an answer; for a probe: before it became one
  bool probe = false;         // sent again without evidence of loss: an answer may refer to the earlier copy
  std::uint16_t behind = 0;   // when it was sent again, this many PSNs from this one on had been sent
};

class FlightStore {
 public:
  // Guarantees that one more ring of `records` records can be taken. REQUIRES: `records` is a power of two.
  void reserve(std::uint32_t records) {
    Size& size = size_of(records);
    if (++size.reserved > size.rings) add_block(size, records);
  }
  void unreserve(std::uint32_t records) { --size_of(records).reserved; }

  // REQUIRES: the ring was reserved. Its contents are indeterminate.
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
    // The log assigns every record before it reads it, so nothing needs initialisation here.
    size.blocks.emplace_back(::operator new(rings* octets));
    auto* ring = static_cast<PacketRecord*>(size.blocks.back().get());
    for (std::size_t i = 0; i < rings; ++i, ring += records) size.free.push_back(ring);
    size.rings += static_cast<std::uint32_t>(rings);
  }

  std::array<Size, 32> sizes_;
};

}  // namespace rrdma::transport
