// Messages for capturing running programs (numbers 0x200 to 0x20f): a tool sends a request, and the daemon
// forwards it to programs.
//
//   tool:     StartCapture -> CaptureStarted; it ends with StopCapture -> Done, or when the tool exits
//   program:  WatchMads -> Done, if it captures into a file of its own
//   program:  MadSeen (event), to a program that captures, for each of its messages of the connection manager
//   program:  CaptureOrder (event), at the start, at the end, and to programs that start in between
//
// Both carry a descriptor: a socket that preserves message boundaries, on which programs send whole pcapng
// blocks to the tool. Every sender keeps it open until its last packet is sent.
#pragma once

#include <cstdint>

#include "control/messages.h"

namespace rrdma::control {

inline constexpr MessageType kStartCapture = static_cast<MessageType>(0x200);
inline constexpr MessageType kCaptureStarted = static_cast<MessageType>(0x201);
inline constexpr MessageType kStopCapture = static_cast<MessageType>(0x202);
inline constexpr MessageType kCaptureOrder = static_cast<MessageType>(0x203);
inline constexpr MessageType kWatchMads = static_cast<MessageType>(0x204);
inline constexpr MessageType kMadSeen = static_cast<MessageType>(0x205);
inline constexpr std::size_t kCaptureFds = 1;

struct StartCapture {
  static constexpr MessageType kType = kStartCapture;
  std::uint32_t pid = 0;          // 0: all programs that the tool's user may see, including later ones
  std::uint32_t snap_octets = 0;  // bytes of each packet; 0: all

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.pid);
    archive.value(self.snap_octets);
  }
};

struct CaptureStarted {
  static constexpr MessageType kType = kCaptureStarted;
  std::uint32_t programs = 0;  // number of programs that capture from now on

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

// `record` comes with the descriptor. `packets_only` is also sent to programs that are not recorded: their
// traffic with a recorded program must travel as packets.
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

// The daemon sends and receives these messages (QP1), so a program that captures has to be told.
struct WatchMads {
  static constexpr MessageType kType = kWatchMads;
  template <typename Archive, typename Self>
  static void fields(Archive&, Self&) {}
};

struct MadSeen {
  static constexpr MessageType kType = kMadSeen;
  static constexpr std::size_t kTransportOctetsMax = 512;
  wire::Gid source;
  wire::Gid destination;
  std::uint8_t direction = 0;           // wire::PacketDirection, for the program
  std::int64_t when_ns = 0;             // CLOCK_MONOTONIC
  std::vector<std::uint8_t> transport;  // BTH, DETH and the MAD

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.array(self.source.octets);
    archive.array(self.destination.octets);
    archive.value(self.direction);
    archive.value(self.when_ns);
    archive.blob(self.transport, kTransportOctetsMax);
  }
};

}  // namespace rrdma::control
