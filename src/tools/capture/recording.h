// Recording: writes packets of running programs to a file until Ctrl-C, a time limit or a packet limit. The
// daemon passes one end of a socket to the programs. They send whole pcapng blocks and close their end after
// the last packet. This process writes the file, with the user's permissions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "link/capture_sink.h"

namespace rrdma::tools {

struct RecordingOrder {
  std::string command;        // the calling command, for error messages: "rrdma capture"
  std::uint32_t pid = 0;      // 0: all programs of this user, including later ones
  bool waits = false;         // if no program runs yet; otherwise fail
  double seconds = 0;         // 0: until interrupted
  std::uint64_t packets = 0;  // 0: any number; for messages only, the file does the counting
  std::uint32_t snap_octets = 0;
  std::string into;  // the destination, for messages
};

struct RecordingResult {
  int status = 0;            // exit_status.h; a failure was already reported
  bool began = false;        // the file may contain packets
  bool file_failed = false;  // a write failed; the caller decides what that means
  std::uint64_t packets = 0, octets = 0, files = 0, left_out = 0;
};

// Opens the file once recording starts. The error is a sentence.
using FileOpener = std::function<Result<std::unique_ptr<link::CaptureFile>, std::string>()>;

// REQUIRES: watch_interrupts() was called.
[[nodiscard]] RecordingResult record(const RecordingOrder& order, const FileOpener& open_file);

}  // namespace rrdma::tools
