// Path: the route of the packets of a QP or an address handle. nic/ resolves it once, when the QP is
// connected or the handle is created. The engine only carries it; the link reads it. It is a value owned by
// its QP or address handle; frames point to it while a burst is transmitted.
#pragma once

#include <cstdint>

#include "wire/gid.h"

namespace rrdma::objects {

// Features of an RRDMA peer beyond the specification; other peers support none of it.
inline constexpr std::uint8_t kFeatureArrivals = 1u << 0;  // understands arrival maps (wire::kArrivalMap)
inline constexpr std::uint8_t kFeatureOnePort = 1u << 1;   // uses one UDP source port for a QP
inline constexpr std::uint8_t kOwnFeatures = kFeatureArrivals | kFeatureOnePort;

struct Path {
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t flow_label = 0;
  std::uint32_t interface_index = 0;  // for link-local and multicast addresses; 0: the link's own
  std::uint16_t source_port = 0;      // UDP source port, constant for a QP
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;
  std::uint8_t local_gid_index = 0;
  std::uint8_t link = 0;             // index of the link in its NIC
  bool lossless = false;             // no ack timeout, no congestion window: the link loses nothing (shm)
  std::uint32_t peer = 0;            // the link's own ID of the other end (a channel, a route)
  std::uint32_t party = 0;           // the process behind `peer`, across its channels; 0: the network
  bool strict = false;               // use only the specification with this peer (EngineConfig::strict)
  bool one_source_port = false;      // the peer uses one UDP source port for a QP, as we do
  std::uint8_t features = 0;         // kFeature… bits of an RRDMA peer
  bool same_host = false;            // no network between the ends, hence no congestion
  bool direct = false;               // the initiator may execute one-sided requests (DirectAccess)
  std::uint32_t train_octets = 0;    // maximum payload of one frame; 0: one path MTU
  std::uint32_t train_accepted = 0;  // maximum payload of one frame of the peer; 0: one path MTU
};

}  // namespace rrdma::objects
