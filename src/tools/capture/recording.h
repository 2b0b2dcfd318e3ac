// Recording: packets of running programs into a file, from now until Ctrl-C, for so many seconds or so many packets. The
// daemon passes one end of a socket on to the programs; they send whole pcapng blocks, and close their end when the
// last packet is on its way. The file is written here, with this user's rights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "link/capture_sink.h"

namespace rrdma::tools {

struct RecordingOrder {
  std::string command;        // who asks, for complaints: "rrdma capture"
  std::uint32_t pid = 0;      // 0: all of this user, also those that start later
  double seconds = 0;         // 0: until interrupted
  std::uint64_t packets = 0;  // 0: any number; only said, the file counts
  std::uint32_t snap_octets = 0;
  std::string into;  // what the packets go to, as it is told
};

struct RecordingResult {
  int status = 0;            // exit_status.h; of a failure the complaint has been made
  bool began = false;        // there may be packets in the file
  bool file_failed = false;  // it took no more: what that means, the caller knows
  std::uint64_t packets = 0, octets = 0, files = 0, left_out = 0;
};

// Opens the file once there is something to record. The error is a sentence.
using FileOpener = std::function<Result<std::unique_ptr<link::CaptureFile>, std::string>()>;

// REQUIRES: watch_interrupts() was called.
[[nodiscard]] RecordingResult record(const RecordingOrder& order, const FileOpener& open_file);

}  // namespace rrdma::tools
