// Messages about the features of peers on other hosts (numbers 0x210 to 0x21f). A program asks when it
// connects a QP. The daemon answers from its cache, and queries the peer if it is unknown
// (daemon/qp1/recognition.h).
#pragma once

#include <cstdint>

#include "control/messages.h"

namespace rrdma::control {

inline constexpr MessageType kRecognisePeer = static_cast<MessageType>(0x210);
inline constexpr MessageType kPeerRecognised = static_cast<MessageType>(0x211);

// In Hello::links: the program understands arrival maps (objects::kFeatureArrivals).
inline constexpr std::uint32_t kLinkArrivals = 1u << 4;

// Reply: PeerRecognised, at once. If it is not `known` yet, an event follows if the peer turns out to run
// RRDMA.
struct RecognisePeer {
  static constexpr MessageType kType = kRecognisePeer;
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // for link-local addresses

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.value(self.interface_index);
  }
};

struct PeerRecognised {
  static constexpr MessageType kType = kPeerRecognised;
  wire::Gid remote;
  bool known = false;
  std::uint8_t features = 0;  // objects::kFeature…; 0: not an RRDMA peer

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.array(self.remote.octets);
    archive.flag(self.known);
    archive.value(self.features);
  }
};

}  // namespace rrdma::control
