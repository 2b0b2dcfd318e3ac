// Counters of an Endpoint, for `rrdma stat` and for tests. Messages are counted by kind, in the order of
// wire::CmMessage.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "wire/cm_mad.h"

namespace rrdma::cm {

using MessageCounts = std::array<std::uint64_t, std::variant_size_v<wire::CmMessage>>;

struct Counters {
  MessageCounts received{};
  MessageCounts sent{};        // including retries
  MessageCounts retries{};     // repeated by a timer
  MessageCounts duplicates{};  // received again, and answered or dropped as duplicates
  std::uint64_t malformed = 0;
  std::uint64_t unmatched = 0;   // matches no connection in a suitable state
  std::uint64_t wrong_peer = 0;  // names a connection of another peer
  std::uint64_t refused = 0;     // REQs and SIDR_REQs that we refused ourselves
  std::uint64_t overflowed = 0;  // of these: for lack of room
  std::uint64_t outgoing_lost = 0;
  std::uint64_t tombstones_evicted = 0;
};

[[nodiscard]] constexpr std::size_t index_of(wire::CmAttribute attribute) {
  return static_cast<std::size_t>(attribute) - static_cast<std::size_t>(wire::CmAttribute::kReq);
}

}  // namespace rrdma::cm
