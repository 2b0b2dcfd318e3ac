// LinkSwitch: the sink that the engine fills. It sends each frame to the link that its path names. A frame
// for a link that no longer exists is dropped, as a network would.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/instant.h"
#include "link/link.h"

namespace rrdma::nic {

// Values of Path::link.
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
  // Polling shared memory is a load. Polling the network is a system call that costs as much as two messages
  // on this host. While frames arrive through shared memory, the network is polled only now and then. It is
  // polled while it has packets, and less often the longer it has had none.
  std::size_t poll(link::Receiver& receiver, Instant now, std::size_t burst_max) {
    const std::size_t near = poll(kShmLink, receiver, now, burst_max);
    if (near != 0) last_near_ = now;
    const bool far_waits =
        now - last_near_ < kNearStaysBusy && !far_brings_ && now - last_far_look_ < far_look_interval_;
    return far_waits ? near : near + poll_far(receiver, now, burst_max);
  }
  std::size_t poll_all(link::Receiver& receiver, Instant now, std::size_t burst_max) {
    const std::size_t near = poll(kShmLink, receiver, now, burst_max);
    return near + poll_far(receiver, now, burst_max);
  }
  [[nodiscard]] Instant next_deadline() const {
    Instant earliest = kNever;
    for (const link::Link* link : links_) {
      if (link != nullptr) earliest = std::min(earliest, link->next_deadline());
    }
    return earliest;
  }

 private:
  static constexpr Duration kNearStaysBusy = microseconds(50);
  static constexpr Duration kFarLookMin = microseconds(20);
  static constexpr Duration kFarLookMax = microseconds(320);

  std::size_t poll(LinkIndex index, link::Receiver& receiver, Instant now, std::size_t burst_max) {
    return links_[index] != nullptr ? links_[index]->poll(receiver, now, burst_max) : 0;
  }
  std::size_t poll_far(link::Receiver& receiver, Instant now, std::size_t burst_max) {
    last_far_look_ = now;
    std::size_t received = poll(kUdpLink, receiver, now, burst_max);
    received += poll(kRelayLink, receiver, now, burst_max);
    far_brings_ = received != 0;
    far_look_interval_ =
        far_brings_ ? kFarLookMin : Duration{std::min(far_look_interval_.ns * 2, kFarLookMax.ns)};
    return received;
  }

  std::array<link::Link*, kLinkCount> links_{};
  link::Link* current_ = nullptr;
  Instant last_near_{-1'000'000'000};
  Instant last_far_look_;
  Duration far_look_interval_ = kFarLookMin;
  bool far_brings_ = false;
  objects::Frame nowhere_;
};

}  // namespace rrdma::nic
