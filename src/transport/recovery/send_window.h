// SendWindow: the number of packets of a QP that may be unacknowledged, without a FlightLog (docs/adr/0015). It grows
// by one packet for each acknowledged one until the first loss, then by one for each window. A loss reduces it to
// seven tenths, once for each window; silence reduces it to the floor. It also keeps the round-trip estimate (RFC
// 6298) that times early retransmission.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/instant.h"
#include "wire/numbers.h"

namespace rrdma::transport {

class SendWindow {
 public:
  static constexpr std::uint32_t kFloor = 2;
  static constexpr std::uint32_t kStart = 32;

  // REQUIRES: packets_max >= 1.
  void reset(std::uint32_t packets_max) {
    max_ = std::max(packets_max, kFloor);
    size_ = std::min(kStart, max_);
    threshold_ = max_;
    credit_ = 0;
    recovering_ = false;
    smoothed_ = variation_ = {};
    sampling_ = false;
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t max() const { return max_; }

  // `una` is now the oldest unacknowledged PSN, `packets` further than before.
  void on_progress(std::uint32_t packets, wire::Psn una) {
    if (recovering_ && !una.before(recovery_point_)) recovering_ = false;
    if (size_ < threshold_) {
      size_ = std::min(size_ + packets, max_);
      return;
    }
    credit_ += packets;
    if (credit_ >= size_) {
      credit_ = 0;
      size_ = std::min(size_ + 1, max_);
    }
  }

  // A packet was lost or marked. `sent` is one past the last PSN sent.
  void on_loss(wire::Psn sent) {
    if (recovering_) return;
    recovering_ = true;
    recovery_point_ = sent;
    size_ = threshold_ = std::max(size_ * 7 / 10, kFloor);
    credit_ = 0;
  }

  void on_silence(wire::Psn sent) {
    recovering_ = true;
    recovery_point_ = sent;
    threshold_ = std::max(size_ / 2, kFloor);
    size_ = kFloor;
    credit_ = 0;
  }

  // Round-trip samples: one packet is timed at a time; a retransmission invalidates the sample (Karn's algorithm).
  void sample_start(wire::Psn psn, Instant now) {
    if (sampling_) return;
    sampling_ = true;
    sample_psn_ = psn;
    sample_start_ = now;
  }
  void sample_spoil() { sampling_ = false; }
  // True if this ended a sample.
  bool sample_end(wire::Psn acknowledged, Instant now) {
    if (!sampling_ || acknowledged.before(sample_psn_)) return false;
    sampling_ = false;
    const Duration rtt = now - sample_start_;
    if (smoothed_.ns == 0) {
      smoothed_ = rtt;
      variation_ = rtt / 2;
      return true;
    }
    const std::int64_t error = rtt.ns - smoothed_.ns;
    variation_.ns += ((error < 0 ? -error : error) - variation_.ns) / 4;
    smoothed_.ns += error / 8;
    return true;
  }
  // A packet is probably lost after this much silence. Practically infinite before the first sample.
  [[nodiscard]] Duration loss_delay() const {
    return smoothed_.ns == 0 ? Duration{INT64_MAX / 4} : smoothed_ * 2 + variation_ * 4;
  }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }

 private:
  std::uint32_t size_ = kStart;
  std::uint32_t max_ = kStart;
  std::uint32_t threshold_ = kStart;
  std::uint32_t credit_ = 0;
  wire::Psn recovery_point_;
  bool recovering_ = false;
  bool sampling_ = false;
  wire::Psn sample_psn_;
  Instant sample_start_;
  Duration smoothed_, variation_;
};

}  // namespace rrdma::transport
