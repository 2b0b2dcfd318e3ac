// Messages about MADs of a connection manager that is not the daemon's: the kernel's (numbers 0x1f0 to
// 0x1ff). Its server claims them; the daemon then passes on each MAD on QP1 that concerns no program of its
// own, and sends those that it is given.
#pragma once

#include <array>
#include <cstdint>

#include "control/messages.h"
#include "wire/cm_mad.h"

namespace rrdma::control {

inline constexpr MessageType kClaimMads = static_cast<MessageType>(0x1f0);
inline constexpr MessageType kSendMad = static_cast<MessageType>(0x1f1);
inline constexpr MessageType kMadArrived = static_cast<MessageType>(0x1f2);  // event

// Reply: Done. Only root may.
struct ClaimMads {
  static constexpr MessageType kType = kClaimMads;

  template <typename Archive, typename Self>
  static void fields(Archive&, Self&) {}
};

// Reply: Done. REQUIRES: ClaimMads.
struct SendMad {
  static constexpr MessageType kType = kSendMad;
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // for link-local addresses
  wire::MadBuffer octets{};

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.value(self.interface_index);
    archive.array(self.octets);
  }
};

struct MadArrived {
  static constexpr MessageType kType = kMadArrived;
  wire::Gid local;
  wire::Gid remote;
  wire::MadBuffer octets{};

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.array(self.octets);
  }
};

}  // namespace rrdma::control
