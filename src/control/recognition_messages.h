// Messages about the features of peers on other hosts. A program asks when it connects a QP. The
// daemon answers from its cache, and queries the peer if it is unknown (daemon/qp1/recognition.h).
#pragma once

#include <cstdint>

#include "control/messages.h"

namespace rrdma::control {

// In Hello::links: the program understands arrival maps (objects::kFeatureArrivals).
inline constexpr std::uint32_t kLinkArrivals = 1u << 4;

// Reply: PeerRecognised, at once. If it is not `known` yet, an event follows if the peer turns out to run
// RRDMA.
struct RecognisePeer {
  static constexpr MessageType kType = MessageType::kRecognisePeer;
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // for link-local addresses

  static void fields(auto& archive, auto& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.value(self.interface_index);
  }
};

struct PeerRecognised {
  static constexpr MessageType kType = MessageType::kPeerRecognised;
  wire::Gid remote;
  bool known = false;
  std::uint8_t features = 0;  // objects::kFeature…; 0: not an RRDMA peer

  static void fields(auto& archive, auto& self) {
    archive.array(self.remote.octets);
    archive(self.known, self.features);
  }
};

}  // namespace rrdma::control
