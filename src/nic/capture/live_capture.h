// LiveCapture: packets of a running program into a file, from one moment to another, by order of the daemon
// (control/capture_messages.h): CaptureLinks around the links of the lane, put there and taken away. LaneLinks puts what
// disturbs packets on purpose around these.
//
// Threads: all calls under the lane's lock, with no frame reserved.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/owned_fd.h"
#include "link/capture_link.h"
#include "link/capture_sink.h"
#include "nic/capture/capture_stream.h"
#include "nic/link_switch.h"

namespace rrdma::nic {

class LiveCapture {
 public:
  // REQUIRES: none is running.
  void start(OwnedFd socket, const link::CaptureConfig& config);
  // What is left says its last words and closes the socket when it goes, which may take a while. REQUIRES: nobody uses
  // what around() gave any more.
  [[nodiscard]] std::unique_ptr<CaptureStream> stop();
  // What was captured so far goes to the file.
  void write_out() {
    if (stream_ != nullptr) stream_->write_out();
  }
  // Something that happened and is no packet. False: no capture is running.
  bool note(Instant now, std::string_view text);
  // The link that sees what passes through this one: itself, unless a capture is running.
  [[nodiscard]] link::Link& around(LinkIndex index, link::Link& link);

 private:
  link::CaptureConfig config_;
  std::unique_ptr<CaptureStream> stream_;
  std::array<std::unique_ptr<link::CaptureLink>, kLinkCount> around_;
};

}  // namespace rrdma::nic
