// Messages of a capture of running programs (numbers 0x200 to 0x20f): a tool asks, the daemon passes it on.
//
//   tool:     StartCapture -> CaptureStarted; it ends with StopCapture -> Done, or with the tool
//   program:  CaptureOrder (event), at the beginning, at the end, and to programs that come in between
//
// Both carry a descriptor: a socket that keeps messages apart, on which programs send whole pcapng blocks to the
// tool. Every sender holds it open until its last packet is on its way.
#pragma once

#include <cstdint>

#include "control/messages.h"

namespace rrdma::control {

inline constexpr MessageType kStartCapture = static_cast<MessageType>(0x200);
inline constexpr MessageType kCaptureStarted = static_cast<MessageType>(0x201);
inline constexpr MessageType kStopCapture = static_cast<MessageType>(0x202);
inline constexpr MessageType kCaptureOrder = static_cast<MessageType>(0x203);
inline constexpr std::size_t kCaptureFds = 1;

struct StartCapture {
  static constexpr MessageType kType = kStartCapture;
  std::uint32_t pid = 0;          // 0: all programs that the tool's user may see, also those that start later
  std::uint32_t snap_octets = 0;  // of each packet; 0: all

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.pid);
    archive.value(self.snap_octets);
  }
};

struct CaptureStarted {
  static constexpr MessageType kType = kCaptureStarted;
  std::uint32_t programs = 0;  // that write from now on

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.programs);
  }
};

struct StopCapture {
  static constexpr MessageType kType = kStopCapture;
  template <typename Archive, typename Self>
  static void fields(Archive&, Self&) {}
};

// `record` comes with the descriptor. `packets_only` also goes to programs that are not recorded: what
// they do to a recorded one must travel as packets.
struct CaptureOrder {
  static constexpr MessageType kType = kCaptureOrder;
  bool packets_only = false;
  bool record = false;
  std::uint32_t snap_octets = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.flag(self.packets_only);
    archive.flag(self.record);
    archive.value(self.snap_octets);
  }
};

}  // namespace rrdma::control
