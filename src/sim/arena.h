// Arena: the memory of one simulated host, cut into slots with guard zones between them. A slot holds a fill
// pattern until something is to be written into it. Every check covers the whole slot and its guards. So a
// byte too many, a misplaced byte and a repeated write all show.
//
//   guard | slot | guard | slot | … | guard        (pools are runs of slots that one region covers)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/octets.h"
#include "base/prng.h"
#include "objects/memory.h"

namespace rrdma::sim {

// Layout of a message's bytes in a slot: up to kPiecesMax runs with gaps between them.
struct Piece {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};
inline constexpr std::size_t kPiecesMax = 8;

struct Layout {
  std::array<Piece, kPiecesMax> pieces{};
  std::uint32_t count = 0;

  [[nodiscard]] std::span<const Piece> list() const { return {pieces.data(), count}; }
  [[nodiscard]] std::uint32_t length() const;
};

struct Slot {
  std::uint64_t at = 0;  // offset in the arena
  std::uint32_t size = 0;
  std::uint32_t pool = 0;
  std::uint64_t fill_id = 0;  // pattern of the bytes that nothing was written to
};

// Bytes [skip, skip + length) of pattern `id`, laid out from the beginning of the layout.
struct Content {
  Layout layout;
  std::uint64_t id = 0;
  std::uint32_t length = 0;
  std::uint32_t skip = 0;
};

class Arena {
 public:
  static constexpr std::uint32_t kGuardOctets = 64;

  Arena(std::uint64_t seed, std::uint64_t address) : next_fill_(seed), address_(address) {}

  // Adds a run of slots and returns the pool's number. REQUIRES: allocate() has not been called.
  std::uint32_t add_pool(std::uint32_t slots, std::uint32_t slot_octets);
  void allocate();
  // The range of a region over the pool: its slots and the guards between them.
  [[nodiscard]] std::uint64_t pool_begin(std::uint32_t pool) const { return pools_[pool].begin; }
  [[nodiscard]] std::uint64_t pool_length(std::uint32_t pool) const { return pools_[pool].length; }
  [[nodiscard]] std::uint8_t* host(std::uint64_t offset) { return octets_.get() + offset; }
  // The address that work requests use for a byte of the arena. It is not a pointer of this process.
  [[nodiscard]] std::uint64_t address(std::uint64_t offset) const { return address_ + offset; }

  // Takes a free slot, freshly filled; null if there is none. check_free() reports a slot that was found
  // changed.
  Slot* take(std::uint32_t pool);
  void give_back(Slot& slot) { pools_[slot.pool].free.push_back(&slot); }
  [[nodiscard]] bool all_free_but(std::uint32_t pool) const;

  // Writes a message's bytes.
  void write(const Slot& slot, const Content& content);
  void refill(Slot& slot);

  // Checks that the slot holds its fill, overlaid with `content` (null: nothing). Empty if so, otherwise the
  // error.
  [[nodiscard]] std::string check(const Slot& slot, const Content* content);
  // Checks after an interruption: every byte is that of the fill or that of the content.
  [[nodiscard]] std::string check_partial(const Slot& slot, const Content& content);
  // Like check(), but bytes of the layout behind the content's length may have any value: a broken UC message
  // leaves them behind.
  [[nodiscard]] std::string check_front(const Slot& slot, const Content& content);
  // Checks that free slots hold their fill and that all guards are intact.
  [[nodiscard]] std::string check_free();

 private:
  struct Pool {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    std::uint32_t slots = 0;
    std::uint32_t slot_octets = 0;
    std::vector<Slot*> free;
  };
  [[nodiscard]] std::string check_guards(const Slot& slot);
  [[nodiscard]] std::string compare(const Slot& slot, const char* what);
  static void overlay(MutableOctets slot, const Content& content);

  std::uint64_t next_fill_;
  std::uint64_t address_;
  std::uint64_t size_ = 0;
  std::vector<Pool> pools_;
  std::vector<Slot> slots_;
  std::unique_ptr<std::uint8_t[]> octets_;
  std::vector<std::uint8_t> expected_;
  std::string changed_;  // found by take()
};

// Cuts `length` bytes into at most `pieces_max` pieces in a slot of `slot_octets`, with gaps if there is
// room.
Layout cut(Prng& prng, std::uint32_t length, std::uint32_t slot_octets, std::uint32_t pieces_max);

}  // namespace rrdma::sim
