// Aligns the clocks of captures from several hosts. A packet in two captures gives the clock difference plus
// or minus the delay, depending on its direction. With packets of both directions the delays cancel: the mean
// is the clock difference.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "inspect/sighting.h"

namespace rrdma::tools {
namespace {

struct Twice {
  std::uint32_t before;  // the sighting in an earlier file
  std::uint32_t now;
};

// Packets that this file and an earlier file contain exactly once each. A retransmission is an identical
// packet, so it is unclear which copy was seen.
std::vector<Twice> seen_in_both(const Sightings& sightings, std::uint16_t file) {
  constexpr std::uint32_t kSeveral = kNoIndex - 1;
  struct Places {
    std::uint32_t before = kNoIndex, now = kNoIndex;
  };
  std::unordered_map<PacketIdentity, Places, PacketIdentityHash> places;
  for (std::uint32_t i = 0; i < sightings.list.size(); ++i) {
    const Sighting& seen = sightings.list[i];
    if (seen.flow == kNoIndex || seen.where.file > file) continue;
    Places& known = places[identity_of(seen)];
    std::uint32_t& place = seen.where.file == file ? known.now : known.before;
    place = place == kNoIndex ? i : kSeveral;
  }
  std::vector<Twice> found;
  for (const auto& [identity, known] : places) {
    if (known.before < kSeveral && known.now < kSeveral) found.push_back({known.before, known.now});
  }
  return found;
}

std::optional<std::int64_t> median(std::vector<std::int64_t>& values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The offset of the file's clock from those of the earlier files.
std::int64_t clock_ahead(const Sightings& sightings, std::span<const Twice> both) {
  std::vector<std::int64_t> there, back;
  for (const Twice& packet : both) {
    const PacketEnds& ends = sightings.flows[sightings.list[packet.now].flow].ends;
    auto& direction = ends.source < ends.destination ? there : back;
    direction.push_back(sightings.list[packet.now].time_ns - sightings.list[packet.before].time_ns);
  }
  const auto one = median(there), other = median(back);
  if (!one && !other) return 0;
  // One direction alone cannot separate delay and offset. Assume that the delay is small.
  if (!one || !other) return one ? *one : *other;
  // Later in one direction and earlier in the other: the clocks agree, and the differences are the delay.
  if ((*one < 0) != (*other < 0)) return 0;
  return (*one + *other) / 2;
}

}  // namespace

void align_clocks(Sightings& sightings) {
  for (std::uint16_t file = 1; file < sightings.files.size(); ++file) {
    const std::vector<Twice> both = seen_in_both(sightings, file);
    const std::int64_t ahead = clock_ahead(sightings, both);
    sightings.files[file].offset_ns = -ahead;
    for (Sighting& seen : sightings.list) {
      if (seen.where.file == file) seen.time_ns -= ahead;
    }
    for (CaptureEvent& event : sightings.events) {
      if (event.file == file) event.time_ns -= ahead;
    }
    // If the capture has no directions, assume that the earlier sighting is the departure.
    for (const Twice& packet : both) {
      Sighting &before = sightings.list[packet.before], &now = sightings.list[packet.now];
      if (before.direction != wire::PacketDirection::kUnknown ||
          now.direction != wire::PacketDirection::kUnknown)
        continue;
      const bool left_before = before.time_ns <= now.time_ns;
      before.direction = left_before ? wire::PacketDirection::kOutbound : wire::PacketDirection::kInbound;
      now.direction = left_before ? wire::PacketDirection::kInbound : wire::PacketDirection::kOutbound;
    }
  }
}

}  // namespace rrdma::tools
