// LinkSwitch: the sink that the engine fills. Sends each frame to the link that its path names; a frame
// for a link that is not there any more is swallowed, as a network would.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/instant.h"
#include "link/link.h"

namespace rrdma::nic {

// Path::link.
enum LinkIndex : std::uint8_t { kUdpLink = 0, kShmLink = 1, kRelayLink = 2, kLinkCount = 3 };

class LinkSwitch final : public objects::FrameSink {
 public:
  void attach(LinkIndex index, link::Link* link) { links_[index] = link; }
  [[nodiscard]] std::span<link::Link* const> all() const { return links_; }
  [[nodiscard]] link::Link* at(LinkIndex index) const { return links_[index]; }

  objects::Frame* reserve(const objects::Path& path) override {
    current_ = path.link < kLinkCount ? links_[path.link] : nullptr;
    return current_ != nullptr ? current_->reserve(path) : &nowhere_;
  }
  void commit(objects::Frame& frame) override {
    if (current_ != nullptr) current_->commit(frame);
  }
  void cancel(objects::Frame& frame) override {
    if (current_ != nullptr) current_->cancel(frame);
  }
  void flush(Instant now) {
    for (link::Link* link : links_) {
      if (link != nullptr) link->flush(now);
    }
  }
  std::size_t poll(link::Receiver& receiver, Instant now, std::size_t burst_max) {
    std::size_t received = 0;
    for (link::Link* link : links_) {
      if (link != nullptr) received += link->poll(receiver, now, burst_max);
    }
    return received;
  }
  [[nodiscard]] Instant next_deadline() const {
    Instant earliest = kNever;
    for (const link::Link* link : links_) {
      if (link != nullptr) earliest = std::min(earliest, link->next_deadline());
    }
    return earliest;
  }

 private:
  std::array<link::Link*, kLinkCount> links_{};
  link::Link* current_ = nullptr;
  objects::Frame nowhere_;
};

}  // namespace rrdma::nic
