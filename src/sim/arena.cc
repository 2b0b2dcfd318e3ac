#include "sim/arena.h"

#include <algorithm>

#include "base/assert.h"
#include "sim/pattern.h"

namespace rrdma::sim {
namespace {

constexpr std::uint64_t kGuardPattern = 0x6775617264ULL;

std::string octet_text(std::uint64_t at, std::uint8_t found, std::uint8_t wanted) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "byte " + std::to_string(at) + " is 0x";
  text += {kDigits[found >> 4], kDigits[found & 15]};
  text += ", not 0x";
  text += {kDigits[wanted >> 4], kDigits[wanted & 15]};
  return text;
}

}  // namespace

std::uint32_t Layout::length() const {
  std::uint32_t sum = 0;
  for (const Piece& piece : list()) sum += piece.length;
  return sum;
}

std::uint32_t Arena::add_pool(std::uint32_t slots, std::uint32_t slot_octets) {
  slot_octets = (slot_octets + 63) / 64 * 64;
  Pool& pool = pools_.emplace_back();
  pool.begin = size_ + kGuardOctets;
  pool.slots = slots;
  pool.slot_octets = slot_octets;
  pool.length = std::uint64_t{slots} * (slot_octets + kGuardOctets) - kGuardOctets;
  size_ = pool.begin + pool.length + kGuardOctets;
  return static_cast<std::uint32_t>(pools_.size() - 1);
}

void Arena::allocate() {
  std::size_t count = 0;
  for (const Pool& pool : pools_) count += pool.slots;
  slots_.reserve(count);
  octets_.reset(new std::uint8_t[size_]);
  fill_pattern({octets_.get(), size_}, kGuardPattern, 0);
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    for (std::uint32_t i = 0; i < pool.slots; ++i) {
      Slot& slot = slots_.emplace_back();
      slot.at = pool.begin + std::uint64_t{i} * (pool.slot_octets + kGuardOctets);
      slot.size = pool.slot_octets;
      slot.pool = static_cast<std::uint32_t>(p);
      refill(slot);
      pool.free.push_back(&slot);
    }
  }
}

Slot* Arena::take(std::uint32_t pool) {
  auto& free = pools_[pool].free;
  if (free.empty()) return nullptr;
  // Take the slot that was free longest: late duplicates then hit a slot at rest.
  Slot* slot = free.front();
  free.erase(free.begin());
  if (changed_.empty()) changed_ = check(*slot, nullptr);
  return slot;
}

bool Arena::all_free_but(std::uint32_t pool) const {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (i != pool && pools_[i].free.size() != pools_[i].slots) return false;
  }
  return true;
}

void Arena::refill(Slot& slot) {
  slot.fill_id = next_fill_++ | std::uint64_t{1} << 63;
  fill_pattern({host(slot.at), slot.size}, slot.fill_id, 0);
}

void Arena::overlay(MutableOctets slot, const Content& content) {
  std::uint32_t done = 0;
  for (const Piece& piece : content.layout.list()) {
    const std::uint32_t n = std::min(piece.length, content.length - done);
    fill_pattern(slot.subspan(piece.offset, n), content.id, std::uint64_t{content.skip} + done);
    done += n;
  }
  RRDMA_ASSERT(done == content.length);
}

void Arena::write(const Slot& slot, const Content& content) { overlay({host(slot.at), slot.size}, content); }

std::string Arena::check_guards(const Slot& slot) {
  std::array<std::uint8_t, kGuardOctets> guard;
  for (const std::uint64_t at : {slot.at - kGuardOctets, slot.at + slot.size}) {
    fill_pattern(guard, kGuardPattern, at);
    if (std::memcmp(guard.data(), host(at), kGuardOctets) == 0) continue;
    return at < slot.at ? "the guard before the slot was written to"
                        : "the guard behind the slot was written to";
  }
  return {};
}

std::string Arena::compare(const Slot& slot, const char* what) {
  const std::uint8_t* found = host(slot.at);
  if (std::memcmp(found, expected_.data(), slot.size) != 0) {
    std::uint32_t at = 0;
    while (found[at] == expected_[at]) ++at;
    return std::string(what) + octet_text(at, found[at], expected_[at]) + " in the slot at " +
           std::to_string(slot.at);
  }
  return check_guards(slot);
}

std::string Arena::check(const Slot& slot, const Content* content) {
  expected_.resize(slot.size);
  fill_pattern(expected_, slot.fill_id, 0);
  if (content != nullptr) overlay(expected_, *content);
  return compare(slot, content == nullptr ? "memory at rest changed: " : "");
}

std::string Arena::check_partial(const Slot& slot, const Content& content) {
  expected_.resize(slot.size);
  fill_pattern(expected_, slot.fill_id, 0);
  const std::uint8_t* found = host(slot.at);
  std::uint32_t done = 0;
  for (const Piece& piece : content.layout.list()) {
    const std::uint32_t n = std::min(piece.length, content.length - done);
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t at = piece.offset + i;
      if (found[at] == pattern_octet(content.id, std::uint64_t{content.skip} + done + i))
        expected_[at] = found[at];
    }
    done += n;
  }
  return compare(slot, "neither old nor new: ");
}

std::string Arena::check_front(const Slot& slot, const Content& content) {
  expected_.resize(slot.size);
  fill_pattern(expected_, slot.fill_id, 0);
  overlay(expected_, content);
  std::uint32_t done = 0;
  for (const Piece& piece : content.layout.list()) {
    const std::uint32_t n = std::min(piece.length, content.length - done);
    std::copy_n(host(slot.at) + piece.offset + n, piece.length - n, expected_.data() + piece.offset + n);
    done += n;
  }
  return compare(slot, "");
}

std::string Arena::check_free() {
  if (!changed_.empty()) return changed_;
  for (const Pool& pool : pools_) {
    for (const Slot* slot : pool.free) {
      if (std::string wrong = check(*slot, nullptr); !wrong.empty()) return wrong;
    }
  }
  for (const Slot& slot : slots_) {
    if (std::string wrong = check_guards(slot); !wrong.empty())
      return wrong + ", at " + std::to_string(slot.at);
  }
  return {};
}

Layout cut(Prng& prng, std::uint32_t length, std::uint32_t slot_octets, std::uint32_t pieces_max) {
  RRDMA_ASSERT(length <= slot_octets && pieces_max >= 1 && pieces_max <= kPiecesMax);
  Layout layout;
  if (length == 0 && prng.below(2) == 0)
    return layout;  // an empty message may have an empty list, or empty pieces
  const auto count = static_cast<std::uint32_t>(prng.between(1, pieces_max));
  std::uint32_t at = 0;
  std::uint32_t left = length;
  std::uint32_t slack = slot_octets - length;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto gap = static_cast<std::uint32_t>(prng.below(std::min<std::uint32_t>(slack, 40) + 1));
    const auto part = i + 1 == count ? left : static_cast<std::uint32_t>(prng.below(left + 1));
    layout.pieces[i] = {at + gap, part};
    at += gap + part;
    left -= part;
    slack -= gap;
  }
  layout.count = count;
  return layout;
}

}  // namespace rrdma::sim
