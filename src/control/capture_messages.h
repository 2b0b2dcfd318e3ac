// Messages for capturing running programs: a tool sends a request, and the daemon forwards it to programs.
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

inline constexpr std::size_t kCaptureFds = 1;

struct StartCapture {
  static constexpr MessageType kType = MessageType::kStartCapture;
  std::uint32_t pid = 0;          // 0: all programs that the tool's user may see, including later ones
  std::uint32_t snap_octets = 0;  // bytes of each packet; 0: all

  static void fields(auto& archive, auto& self) { archive(self.pid, self.snap_octets); }
};

struct CaptureStarted {
  static constexpr MessageType kType = MessageType::kCaptureStarted;
  std::uint32_t programs = 0;  // number of programs that capture from now on

  static void fields(auto& archive, auto& self) { archive.value(self.programs); }
};

struct StopCapture {
  static constexpr MessageType kType = MessageType::kStopCapture;
  static void fields(auto&, auto&) {}
};

// `record` comes with the descriptor. `packets_only` is also sent to programs that are not recorded: their
// traffic with a recorded program must travel as packets.
struct CaptureOrder {
  static constexpr MessageType kType = MessageType::kCaptureOrder;
  bool packets_only = false;
  bool record = false;
  std::uint32_t snap_octets = 0;

  static void fields(auto& archive, auto& self) { archive(self.packets_only, self.record, self.snap_octets); }
};

// The daemon sends and receives these messages (QP1), so a program that captures has to be told.
struct WatchMads {
  static constexpr MessageType kType = MessageType::kWatchMads;
  static void fields(auto&, auto&) {}
};

struct MadSeen {
  static constexpr MessageType kType = MessageType::kMadSeen;
  static constexpr std::size_t kTransportOctetsMax = 512;
  wire::Gid source;
  wire::Gid destination;
  std::uint8_t direction = 0;           // wire::PacketDirection, for the program
  std::int64_t when_ns = 0;             // CLOCK_MONOTONIC
  std::vector<std::uint8_t> transport;  // BTH, DETH and the MAD

  static void fields(auto& archive, auto& self) {
    archive.array(self.source.octets);
    archive.array(self.destination.octets);
    archive(self.direction, self.when_ns);
    archive.blob(self.transport, kTransportOctetsMax);
  }
};

}  // namespace rrdma::control
