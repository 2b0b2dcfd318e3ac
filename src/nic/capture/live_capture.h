// LiveCapture: packets of a running program into a file, from one moment to another, by order of the daemon
// (control/capture_messages.h): CaptureLinks around the links of the lane, put there and taken away. They
// stand outside of faults that were asked for: they show what the engine sends and takes.
//
// Threads: all calls under the lane's lock, with no frame reserved.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/owned_fd.h"
#include "link/capture_link.h"
#include "link/capture_sink.h"
#include "nic/capture/capture_stream.h"
#include "nic/link_switch.h"

namespace rrdma::nic {

class LiveCapture {
 public:
  // Starts anew where one is running. The socket is closed when the last packet is on its way.
  void start(LinkSwitch& links, OwnedFd socket, const link::CaptureConfig& config);
  void stop(LinkSwitch& links);
  // What was captured so far goes to the file.
  void write_out() {
    if (stream_ != nullptr) stream_->write_out();
  }
  // Attaches a link that was not there when the capture began.
  void attach(LinkSwitch& links, LinkIndex index, link::Link* link);

 private:
  void wrap(LinkSwitch& links, LinkIndex index);

  link::CaptureConfig config_;
  std::unique_ptr<CaptureStream> stream_;
  std::array<link::Link*, kLinkCount> inner_{};
  std::array<std::unique_ptr<link::CaptureLink>, kLinkCount> around_;
};

}  // namespace rrdma::nic
