// Messages of a capture of running programs (numbers 0x200 to 0x20f): a tool asks, the daemon passes it on.
//
//   tool:     StartCapture -> CaptureStarted; it ends with StopCapture -> Done, or with the tool
//   program:  CaptureOrder (event), at the beginning, at the end, and to programs that come in between
//
// Both carry the same two descriptors: the file, opened for appending by the tool with the tool's rights,
// and one end of a pipe that every writer holds open until all of its packets are in the file.
#pragma once

#include <cstdint>

#include "control/messages.h"

namespace rrdma::control {

inline constexpr MessageType kStartCapture = static_cast<MessageType>(0x200);
inline constexpr MessageType kCaptureStarted = static_cast<MessageType>(0x201);
inline constexpr MessageType kStopCapture = static_cast<MessageType>(0x202);
inline constexpr MessageType kCaptureOrder = static_cast<MessageType>(0x203);
inline constexpr std::size_t kCaptureFds = 2;

struct StartCapture {
  static constexpr MessageType kType = kStartCapture;
  std::uint32_t pid = 0;  // 0: all programs that the tool's user may see, also those that start later

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.pid);
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

// `record` comes with the descriptors. `packets_only` also goes to programs that are not recorded: what
// they do to a recorded one must travel as packets.
struct CaptureOrder {
  static constexpr MessageType kType = kCaptureOrder;
  bool packets_only = false;
  bool record = false;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.flag(self.packets_only);
    archive.flag(self.record);
  }
};

}  // namespace rrdma::control
