// LiveCapture: captures packets of a running program into a file on the daemon's order
// (control/capture_messages.h). It adds CaptureLinks around the links of the lane and removes them. LaneLinks
// puts the fault decorators outside of them.
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
#include "nic/links/capture_stream.h"
#include "nic/links/link_switch.h"

namespace rrdma::nic {

class LiveCapture {
 public:
  // REQUIRES: none is running.
  void start(OwnedFd socket, const link::CaptureConfig& config);
  // Ends the capture. The returned stream sends its last blocks and closes the socket when it is destroyed,
  // which may take a while. REQUIRES: links from around() are no longer in use.
  [[nodiscard]] std::unique_ptr<CaptureStream> stop();
  // Writes everything captured so far to the file.
  void write_out() {
    if (stream_ != nullptr) stream_->write_out();
  }
  // Records an event that is not a packet. False if no capture is running.
  bool note(Instant now, std::string_view text, std::string_view facts = {});
  bool record_foreign(const link::CaptureLink::ForeignPacket& packet);
  // The link to use in place of `link`: its CaptureLink if a capture is running, otherwise itself.
  [[nodiscard]] link::Link& around(LinkIndex index, link::Link& link);

 private:
  link::CaptureConfig config_;
  std::unique_ptr<CaptureStream> stream_;
  std::array<std::unique_ptr<link::CaptureLink>, kLinkCount> around_;
};

}  // namespace rrdma::nic
