#include "objects/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace rrdma::objects {
namespace {

// The length of the widest aligned word that ends the message, which programs may spin on.
std::size_t last_word(const std::uint8_t* to, std::size_t octets) {
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(to) + octets;
  for (const std::size_t word : {8u, 4u, 2u}) {
    if (end % word == 0 && octets >= word) return word;
  }
  return 1;
}

// An address of the other memory is not an object of this program: no pointer arithmetic on it.
const std::uint8_t* advance(const std::uint8_t* at, std::size_t octets) {
  return reinterpret_cast<const std::uint8_t*>(reinterpret_cast<std::uintptr_t>(at) + octets);
}

std::size_t distance(const std::uint8_t* from, const std::uint8_t* to) {
  return reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
}

}  // namespace

Staging::~Staging() { settle_all(); }

// A kind whose line cannot be opened has none until another region is opened: every access fails.
Staging::Side* Staging::side(std::uint8_t kind) {
  RRDMA_ASSERT(kind != 0);
  if (sides_.size() < kind) sides_.resize(kind);
  std::unique_ptr<Side>& place = sides_[kind - 1u];
  if (place == nullptr) {
    place = std::make_unique<Side>();
    (void)open_line(*place, kind);
  }
  return place->line != nullptr ? place.get() : nullptr;
}

bool Staging::open_line(Side& side, std::uint8_t kind) {
  MemoryKind* found = table_.kind(kind);
  RRDMA_ASSERT(found != nullptr);
  auto line = found->open_line();
  if (line == nullptr) return false;
  side.line = std::move(line);
  constexpr std::size_t kOctets = (kReadSlices + kWriteSlices) * kSliceOctets;
  side.buffers = std::make_unique<std::uint8_t[]>(kOctets);
  side.line->prepare(side.buffers, kOctets);
  std::uint8_t* next = side.buffers.get();
  for (ReadSlice& slice : side.reads) slice = {.data = std::exchange(next, next + kSliceOctets)};
  for (WriteSlice& slice : side.writes) slice = {.data = std::exchange(next, next + kSliceOctets)};
  return true;
}

void Staging::on_region_opened(const MemoryRegion& region) {
  if (region.kind == 0) return;
  (void)side(region.kind);
  Side& own = *sides_[region.kind - 1u];
  if (own.line != nullptr && (lent_ || !own.line->is_broken())) return;
  if (own.line != nullptr) settle(own);  // what waits for the broken line fails
  (void)open_line(own, region.kind);
}

// ---- sending ----

bool Staging::begin(Side& side, ReadSlice& slice, const MessageName& message, const std::uint8_t* at,
                    std::size_t octets) {
  slice.octets = 0;
  if (!side.line->begin_read(slice.data, reinterpret_cast<std::uintptr_t>(at), octets)) {
    ++side.counts.failures;
    return false;
  }
  slice.message = message;
  slice.at = at;
  slice.octets = octets;
  slice.mark = side.line->mark();
  slice.last_use = ++side.uses;
  slice.arrived = slice.served = false;
  ++side.counts.reads;
  side.counts.octets_read += octets;
  return true;
}

Staging::ReadSlice* Staging::find(Side& side, const MessageName& message, const std::uint8_t* at,
                                  std::size_t length) {
  for (ReadSlice& slice : side.reads) {
    if (slice.octets == 0 || slice.message != message || at < slice.at) continue;
    const std::size_t skipped = distance(slice.at, at);
    if (skipped < slice.octets && length <= slice.octets - skipped) return &slice;
  }
  return nullptr;
}

// The one that was used longest ago and that no frame refers to; null: none.
Staging::ReadSlice* Staging::take_slice(Side& side) {
  ReadSlice* oldest = nullptr;
  for (ReadSlice& slice : side.reads) {
    if (slice.lent) continue;
    if (slice.octets == 0) return &slice;
    if (oldest == nullptr || slice.last_use < oldest->last_use) oldest = &slice;
  }
  return oldest;
}

// Begins to read what follows the slice. Slices end where packets end, as long as packets have one length.
void Staging::read_ahead(Side& side, const ReadSlice& slice, std::size_t length, const std::uint8_t* end) {
  const std::uint8_t* const next = advance(slice.at, slice.octets);
  if (next >= end) return;
  const std::size_t octets = std::min(distance(next, end), kSliceOctets / length * length);
  if (find(side, slice.message, next, 1) != nullptr) return;
  if (ReadSlice* free = take_slice(side); free != nullptr && free != &slice)
    (void)begin(side, *free, slice.message, next, octets);
}

const std::uint8_t* Staging::fetch(std::uint8_t kind, const MessageName& message, const std::uint8_t* at,
                                   std::size_t length, std::uint64_t ahead) {
  RRDMA_ASSERT(length <= ahead && length <= kSliceOctets);
  Side* const own = side(kind);
  if (own == nullptr) return nullptr;
  ReadSlice* slice = find(*own, message, at, length);
  if (slice == nullptr) {
    slice = take_slice(*own);
    if (slice == nullptr) {
      starved_ = true;
      return nullptr;
    }
    const std::size_t octets = static_cast<std::size_t>(
        std::min<std::uint64_t>(ahead, kSliceOctets / std::max<std::size_t>(length, 1) * length));
    if (!begin(*own, *slice, message, at, octets)) return nullptr;
  }
  slice->lent = lent_ = true;
  slice->last_use = ++own->uses;
  if (length != 0) read_ahead(*own, *slice, length, advance(at, static_cast<std::size_t>(ahead)));
  if (!slice->arrived && !own->line->wait(slice->mark)) {
    ++own->counts.failures;
    slice->octets = 0;
    return nullptr;
  }
  slice->arrived = true;
  const std::size_t skipped = distance(slice->at, at);
  slice->served = skipped + length == slice->octets;
  return slice->data + skipped;
}

// A slice that was served to its end is not kept: if its packets are lost, they read it again.
void Staging::take_back() {
  lent_ = false;
  for (const auto& side : sides_) {
    if (side == nullptr) continue;
    for (ReadSlice& slice : side->reads) {
      slice.lent = false;
      if (slice.served) slice.octets = 0;
    }
  }
}

// ---- receiving ----

void Staging::fail(Side& side, const Inflow& inflow) {
  ++side.counts.failures;
  if (std::find(side.failed.begin(), side.failed.end(), inflow) == side.failed.end())
    side.failed.push_back(inflow);
}

void Staging::begin_run(Side& side) {
  Run& run = side.run;
  if (run.octets == 0) return;
  if (side.line->begin_write(reinterpret_cast<std::uintptr_t>(run.to), run.from, run.octets)) {
    ++side.counts.writes;
    side.counts.octets_written += run.octets;
  } else {
    fail(side, run.inflow);
  }
  run.octets = 0;
}

void Staging::append(Side& side, const Inflow& inflow, std::uint8_t* to, Octets data) {
  while (!data.empty()) {
    if (side.filled == kSliceOctets) {
      begin_run(side);
      side.writes[side.current].mark = side.line->mark();
      side.current = (side.current + 1) % kWriteSlices;
      side.filled = 0;
      if (!side.line->wait(side.writes[side.current].mark)) fail(side, inflow);
    }
    Run& run = side.run;
    const bool adjacent = run.inflow == inflow && advance(run.to, run.octets) == to;
    if (run.octets >= kRunOctetsMax || (run.octets != 0 && !adjacent)) begin_run(side);
    std::uint8_t* const place = side.writes[side.current].data + side.filled;
    if (run.octets == 0) run = {inflow, to, place, 0};
    const std::size_t part = std::min({data.size(), kSliceOctets - side.filled, kRunOctetsMax - run.octets});
    std::memcpy(place, data.data(), part);
    run.octets += part;
    side.filled += part;
    to = const_cast<std::uint8_t*>(advance(to, part));
    data = data.subspan(part);
  }
  side.unfinished = true;
}

bool Staging::store(std::uint8_t kind, const Inflow& inflow, std::uint8_t* at, Octets data, bool final) {
  Side* const own = side(kind);
  if (own == nullptr) return false;
  if (data.empty()) return !final || finish(inflow);
  pending_ = true;
  if (!final) {
    append(*own, inflow, at, data);
    return true;
  }
  for (const auto& other : sides_) {
    if (other != nullptr && other.get() != own && other->line != nullptr) settle(*other);
  }
  const std::size_t body = data.size() - last_word(at, data.size());
  append(*own, inflow, at, data.first(body));
  begin_run(*own);
  append(*own, inflow, const_cast<std::uint8_t*>(advance(at, body)), data.subspan(body));
  return finish(inflow);
}

// Copies that fail after they began leave the kind unusable, so they fail every message.
void Staging::settle(Side& side) {
  if (!side.unfinished) return;
  begin_run(side);
  const Inflow last = side.run.inflow;
  if (!side.line->wait(side.line->mark())) fail(side, last);
  side.filled = 0;
  side.unfinished = false;
}

void Staging::settle_all() {
  for (const auto& side : sides_) {
    if (side != nullptr && side->line != nullptr) settle(*side);
  }
  pending_ = false;
}

bool Staging::finish(const Inflow& inflow) {
  settle_all();
  bool arrived = true;
  for (const auto& side : sides_) {
    if (side != nullptr && std::erase(side->failed, inflow) != 0) arrived = false;
  }
  return arrived;
}

void Staging::forget_messages(wire::Qpn qpn) {
  for (const auto& side : sides_) {
    if (side == nullptr) continue;
    std::erase_if(side->failed, [&](const Inflow& inflow) { return inflow.qpn == qpn; });
    for (ReadSlice& slice : side->reads) {
      if (slice.message.qpn == qpn) slice.octets = 0;
    }
  }
}

void Staging::on_region_closed(const MemoryRegion& region) {
  if (region.kind == 0 || sides_.size() < region.kind) return;
  settle_all();
  const auto& side = sides_[region.kind - 1u];
  if (side == nullptr || side->line == nullptr) return;
  // Reads ahead may still be in progress.
  (void)side->line->wait(side->line->mark());
  for (ReadSlice& slice : side->reads) slice.octets = 0;
}

Staging::Counts Staging::counts(std::uint8_t kind) const {
  return kind == 0 || sides_.size() < kind || sides_[kind - 1u] == nullptr ? Counts{}
                                                                           : sides_[kind - 1u]->counts;
}

}  // namespace rrdma::objects
