#include "nic/capture/live_capture.h"

#include <utility>

#include "host/clock.h"

namespace rrdma::nic {

void LiveCapture::start(LinkSwitch& links, OwnedFd socket, const link::CaptureConfig& config) {
  stop(links);
  socket.close_at_fork();  // a child that lives on sends nothing
  stream_ = std::make_unique<CaptureStream>(std::move(socket));
  config_ = config;
  config_.epoch_offset_ns = host::wall_offset_ns();
  for (std::uint8_t index = 0; index < kLinkCount; ++index) wrap(links, static_cast<LinkIndex>(index));
}

void LiveCapture::wrap(LinkSwitch& links, LinkIndex index) {
  inner_[index] = links.at(index);
  if (inner_[index] == nullptr) return;
  around_[index] = std::make_unique<link::CaptureLink>(*inner_[index], *stream_, config_);
  links.attach(index, around_[index].get());
}

void LiveCapture::stop(LinkSwitch& links) {
  if (stream_ == nullptr) return;
  for (std::uint8_t index = 0; index < kLinkCount; ++index) {
    links.attach(static_cast<LinkIndex>(index), inner_[index]);
    around_[index].reset();
    inner_[index] = nullptr;
  }
  stream_.reset();
}

void LiveCapture::attach(LinkSwitch& links, LinkIndex index, link::Link* link) {
  links.attach(index, link);
  if (stream_ != nullptr) wrap(links, index);
}

}  // namespace rrdma::nic
