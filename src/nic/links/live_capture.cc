#include "nic/links/live_capture.h"

#include <utility>

#include "host/calls/method_names.h"
#include "host/clock.h"

namespace rrdma::nic {

void LiveCapture::start(OwnedFd socket, const link::CaptureConfig& config) {
  socket.close_at_fork();  // a child that lives on sends nothing
  stream_ = std::make_unique<CaptureStream>(std::move(socket));
  config_ = config;
  config_.epoch_offset_ns = host::wall_offset_ns();
  config_.clock = &host::now;
  config_.methods = &host::method_names();
}

std::unique_ptr<CaptureStream> LiveCapture::stop() {
  for (auto& around : around_) around.reset();
  return std::move(stream_);
}

bool LiveCapture::note(Instant now, std::string_view text, std::string_view facts) {
  for (const auto& around : around_) {
    if (around == nullptr) continue;
    around->note(now, text, facts);
    return true;
  }
  return false;
}

bool LiveCapture::record_foreign(const link::CaptureLink::ForeignPacket& packet) {
  for (const auto& around : around_) {
    if (around == nullptr) continue;
    around->record_foreign(packet);
    return true;
  }
  return false;
}

link::Link& LiveCapture::around(LinkIndex index, link::Link& link) {
  if (stream_ == nullptr) return link;
  if (around_[index] == nullptr)
    around_[index] = std::make_unique<link::CaptureLink>(link, *stream_, config_);
  return *around_[index];
}

}  // namespace rrdma::nic
