#include "transport/recovery/reorder_buffer.h"

#include <algorithm>

#include "base/assert.h"

namespace rrdma::transport {

// ---- the store ----

void EarlyPackets::allocate() {
  if (octets_ != nullptr) return;
  octets_ = std::make_unique_for_overwrite<std::uint8_t[]>(kSlots * kOctetsMax);  // paged in on use
  places_ = std::make_unique_for_overwrite<Places[]>(kSlots);
  kept_.resize(kSlots);
  free_.reserve(kSlots);
  free_places_.reserve(kSlots);
  for (std::uint16_t slot = kSlots; slot != 0; --slot) free_.push_back(static_cast<std::uint16_t>(slot - 1));
}

std::uint16_t EarlyPackets::keep(const wire::TransportPacket& packet, bool placed, std::uint32_t held) {
  if (free_.empty() || packet.payload.size() > kOctetsMax) return kNone;
  if (free_.size() <= kReserve && held >= free_.size() / kReserveShare) return kNone;
  const std::uint16_t slot = free_.back();
  free_.pop_back();
  kept_[slot] = {packet.headers, static_cast<std::uint16_t>(packet.payload.size()), placed};
  if (!placed) std::copy(packet.payload.begin(), packet.payload.end(), octets_.get() + slot * kOctetsMax);
  return slot;
}

wire::TransportPacket EarlyPackets::at(std::uint16_t slot) const {
  return {kept_[slot].headers, Octets(octets_.get() + slot * kOctetsMax, kept_[slot].octets)};
}

EarlyPackets::Places* EarlyPackets::take_places() {
  if (!free_places_.empty()) {
    Places* const places = free_places_.back();
    free_places_.pop_back();
    return places;
  }
  RRDMA_ASSERT(places_used_ < kSlots);
  Places& places = places_[places_used_++];
  places.fill(kNone);
  return &places;
}

// ---- the buffer ----

void ReorderBuffer::enable(EarlyPackets& store) {
  store.allocate();
  store_ = &store;
  if (bits_ == nullptr) bits_ = std::make_unique<std::array<std::uint8_t, kBitmapOctets>>();
}

void ReorderBuffer::disable() {
  clear();
  store_ = nullptr;
  bits_.reset();
}

ReorderBuffer::Verdict ReorderBuffer::keep(const wire::TransportPacket& packet, wire::Psn expected,
                                           std::uint32_t psns, bool placed) {
  const wire::Psn psn = packet.headers.bth.psn;
  const auto distance = static_cast<std::uint32_t>(psn.since(expected));
  if (distance >= kPsns || psns > kPsns - distance) return Verdict::kNoRoom;
  for (std::uint32_t i = 0; count_ != 0 && i < psns; ++i) {
    if (place(psn + i) != EarlyPackets::kNone) return Verdict::kHadIt;
  }
  follow(expected);
  const std::uint16_t slot = store_->keep(packet, placed, held_);
  if (slot == EarlyPackets::kNone) return Verdict::kNoRoom;
  if (count_ == 0) places_ = store_->take_places();
  place(psn) = slot;
  for (std::uint32_t i = 1; i < psns; ++i) place(psn + i) = kPart;
  count_ += psns;
  ++held_;
  return place(psn - 1) == EarlyPackets::kNone ? Verdict::kKeptBeyondGap : Verdict::kKept;
}

// The table of places goes back to the store with the last packet.
void ReorderBuffer::vacate(std::uint16_t& slot) {
  if (slot == EarlyPackets::kNone) return;
  if (slot != kPart) {
    store_->release(slot);
    --held_;
  }
  slot = EarlyPackets::kNone;
  if (--count_ != 0) return;
  store_->give_back(places_);
  places_ = nullptr;
}

bool ReorderBuffer::find(wire::Psn psn, Found& found) const {
  if (headers(psn) == nullptr) return false;
  const std::uint16_t slot = place(psn);
  found = {store_->at(slot), store_->placed(slot)};
  return true;
}

const wire::TransportHeaders* ReorderBuffer::headers(wire::Psn psn) const {
  if (count_ == 0) return nullptr;
  const std::uint16_t slot = place(psn);
  return slot == EarlyPackets::kNone || slot == kPart ? nullptr : &store_->headers(slot);
}

bool ReorderBuffer::keeps_middle(wire::Psn psn) const {
  const wire::TransportHeaders* const kept = headers(psn);
  return kept != nullptr && wire::shape_of(kept->bth.opcode).is_middle();
}

// Runs for every packet: a stale `same_until_` would lie in the future half a PSN space later.
void ReorderBuffer::follow(wire::Psn expected) {
  if (count_ == 0 || same_until_.before(expected)) same_until_ = expected;
}

bool ReorderBuffer::in_same_message(wire::Psn psn, wire::Psn expected) {
  follow(expected);
  while (keeps_middle(same_until_) || keeps_middle(same_until_ + 1)) ++same_until_;
  if (psn.since(same_until_) > 1) return false;
  if (same_until_.before(psn + 1)) same_until_ = psn + 1;
  return true;
}

void ReorderBuffer::release_until(wire::Psn from, wire::Psn expected) {
  for (wire::Psn psn = from; count_ != 0 && psn.before(expected); ++psn) vacate(place(psn));
}

void ReorderBuffer::clear() {
  for (std::uint32_t i = 0; count_ != 0 && i < kPsns; ++i) vacate((*places_)[i]);
}

Octets ReorderBuffer::bitmap(wire::Psn expected) {
  bits_->fill(0);
  std::size_t octets = 0;
  std::uint32_t left = count_;
  for (std::uint32_t i = 0; left != 0 && i < kPsns; ++i) {
    if (place(expected + i) == EarlyPackets::kNone) continue;
    --left;
    (*bits_)[i / 8] = static_cast<std::uint8_t>((*bits_)[i / 8] | 0x80 >> i % 8);
    octets = i / 8 + 1;
  }
  octets = (octets + 3) & ~std::size_t{3};
  return {bits_->data(), octets};
}

}  // namespace rrdma::transport
