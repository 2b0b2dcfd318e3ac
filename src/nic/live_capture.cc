#include "nic/live_capture.h"

#include <utility>

#include "host/clock.h"

namespace rrdma::nic {

void LiveCapture::start(LinkSwitch& links, OwnedFd file, OwnedFd end_mark, const std::string& interface) {
  stop(links);
  file_ = link::CaptureFile::adopt(std::move(file));
  end_mark_ = std::move(end_mark);
  end_mark_.close_at_fork();  // a child that lives on writes nothing
  interface_ = interface;
  for (std::uint8_t index = 0; index < kLinkCount; ++index) wrap(links, static_cast<LinkIndex>(index));
}

void LiveCapture::wrap(LinkSwitch& links, LinkIndex index) {
  inner_[index] = links.at(index);
  if (inner_[index] == nullptr) return;
  link::CaptureConfig config;
  config.interface_name = interface_;
  config.epoch_offset_ns = host::wall_offset_ns();
  around_[index] = std::make_unique<link::CaptureLink>(*inner_[index], *file_, config);
  links.attach(index, around_[index].get());
}

void LiveCapture::stop(LinkSwitch& links) {
  if (file_ == nullptr) return;
  for (std::uint8_t index = 0; index < kLinkCount; ++index) {
    links.attach(static_cast<LinkIndex>(index), inner_[index]);
    around_[index].reset();
    inner_[index] = nullptr;
  }
  file_.reset();
  end_mark_.reset();
}

void LiveCapture::attach(LinkSwitch& links, LinkIndex index, link::Link* link) {
  links.attach(index, link);
  if (file_ != nullptr) wrap(links, index);
}

}  // namespace rrdma::nic
