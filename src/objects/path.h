// Path: where the packets of a QP (or of an address handle) go. nic/ resolves it once, when the QP is
// connected or the handle is made; the engine only carries it, the link reads it. A value, owned by
// its QP or address handle; frames point to it while a burst is transmitted.
#pragma once

#include <cstdint>

#include "wire/gid.h"

namespace rrdma::objects {

// What an end of our own kind can do beyond the specification; a stranger can do none of it.
inline constexpr std::uint8_t kFeatureArrivals = 1u
                                                 << 0;    // understands which packets a responder holds early
inline constexpr std::uint8_t kFeatureOnePort = 1u << 1;  // keeps to one UDP source port for a QP
inline constexpr std::uint8_t kOwnFeatures = kFeatureArrivals | kFeatureOnePort;

struct Path {
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t flow_label = 0;
  std::uint32_t interface_index = 0;  // for link-local and multicast addresses; 0: the link's own
  std::uint16_t source_port = 0;      // UDP source port: fixed for a QP
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;
  std::uint8_t local_gid_index = 0;
  std::uint8_t link = 0;             // index of the link in its NIC
  bool lossless = false;             // no ack timeout, no congestion window: the link never loses (shm)
  std::uint32_t peer = 0;            // the link's own name for the other end (a channel, a route)
  std::uint32_t party = 0;           // the process behind `peer`, by all its channels; 0: the network
  bool strict = false;               // towards this peer nothing but the specification (EngineConfig::strict)
  bool one_source_port = false;      // the peer keeps to one UDP source port for a QP, as we do
  std::uint8_t features = 0;         // of the peer, if it is one of our own kind (kFeature…)
  bool same_host = false;            // no network between the ends: nothing to be congested
  bool direct = false;               // one-sided requests may be done by the initiator (DirectAccess)
  std::uint32_t train_octets = 0;    // payload that one frame may carry; 0: one path MTU
  std::uint32_t train_accepted = 0;  // payload that one frame of the peer may carry; 0: one path MTU
};

}  // namespace rrdma::objects
