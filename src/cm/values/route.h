// The vocabulary of the connection manager, shared by the program's rdma_cm, the messages to the daemon and
// the Endpoint. Everything is from the local view.
#pragma once

#include <compare>
#include <cstdint>

#include "wire/address.h"
#include "wire/cm_mad.h"
#include "wire/numbers.h"

namespace rrdma::cm {

// A connection, a half-open one or a lookup (SIDR): the local communication ID on the wire.
using ConnectionId = wire::CommId;

struct ListenerId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(ListenerId, ListenerId) = default;
};

// Lets the owner find its own record; the Endpoint only returns it.
using OwnerToken = std::uint64_t;

enum class QpType : std::uint8_t { kReliable, kUnreliable, kXrcInitiator, kXrcTarget };

inline constexpr std::uint8_t kHopLimit = 64;
inline constexpr std::uint8_t kRocePacketLifetime = 16;

// The route of MADs, and later of the queue pair's packets.
struct Route {
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // for link-local addresses; 0: unknown
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = kHopLimit;
  std::uint8_t service_level = 0;
  std::uint16_t partition_key = wire::kDefaultPKey;
  friend bool operator==(const Route&, const Route&) = default;
};

// Enhanced connection establishment: opaque to all but the two drivers.
struct Ece {
  std::uint32_t vendor_id = 0;  // 24 bits
  std::uint32_t options = 0;
  friend bool operator==(const Ece&, const Ece&) = default;
};

}  // namespace rrdma::cm
