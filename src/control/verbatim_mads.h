// Messages about MADs of a connection manager that is not the daemon's: the kernel's. Its server claims
// them; the daemon then passes on each MAD on QP1 that concerns no program of its own, and sends those that
// it is given.
#pragma once

#include <array>
#include <cstdint>

#include "control/messages.h"
#include "wire/cm_mad.h"

namespace rrdma::control {

// Reply: Done. Only root may.
struct ClaimMads {
  static constexpr MessageType kType = MessageType::kClaimMads;

  static void fields(auto&, auto&) {}
};

// Reply: Done. REQUIRES: ClaimMads.
struct SendMad {
  static constexpr MessageType kType = MessageType::kSendMad;
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // for link-local addresses
  wire::MadBuffer octets{};

  static void fields(auto& archive, auto& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.value(self.interface_index);
    archive.array(self.octets);
  }
};

struct MadArrived {
  static constexpr MessageType kType = MessageType::kMadArrived;
  wire::Gid local;
  wire::Gid remote;
  wire::MadBuffer octets{};

  static void fields(auto& archive, auto& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.array(self.octets);
  }
};

}  // namespace rrdma::control
