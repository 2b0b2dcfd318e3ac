// Congestion control: how many packets of a QP may be in flight, and how fast they leave. One interface with
// several implementations; docs/adr/0018 names the papers. All arithmetic uses integers, so a run is the same
// on every machine.
//
//   loss    for other implementations: grows until a packet is lost, marked or delayed; one loss costs little
//   swift   between RRDMA peers: keeps the delay near a target (the default there)
//   dcqcn   a rate that congestion notifications cut and that recovers in steps, as in hardware NICs
//   fixed   a constant window
//   none    as much as the receiver's buffer is assumed to hold (the default on one host)
//   strict  the window of go-back-N (docs/adr/0015), which no name selects
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/instant.h"
#include "transport/recovery/round_trip.h"
#include "wire/numbers.h"

namespace rrdma::transport {

enum class CongestionKind : std::uint8_t { kAutomatic, kLoss, kSwift, kDcqcn, kFixed, kNone };
std::string_view describe(CongestionKind kind);
std::optional<CongestionKind> parse_congestion_kind(std::string_view name);

// The state of the requester at an event.
struct CongestionView {
  Instant now;
  wire::Psn una;                // oldest unfinished PSN
  wire::Psn sent;               // one past the last one sent
  const RoundTrip& round_trip;  // includes the sample of this event, if it brought one
  std::uint32_t packet_octets;  // payload of a full packet
};

class CongestionControl {
 public:
  static constexpr std::uint32_t kFloor = 2;   // packets
  static constexpr std::uint32_t kStart = 32;  // packets
  virtual ~CongestionControl() = default;

  // `packets` more packets have arrived. `sampled`: this event measured the round trip.
  virtual void on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) = 0;
  virtual void on_loss(const CongestionView& view) = 0;     // a gap was found
  virtual void on_silence(const CongestionView& view) = 0;  // no answer for a whole ack timeout
  virtual void on_mark(const CongestionView& view) = 0;     // a congestion notification arrived
  [[nodiscard]] virtual std::uint32_t window() const = 0;   // packets
  // Pacing: the time at which the next packet may leave, and a report of bytes sent. Window-based algorithms
  // do not pace.
  [[nodiscard]] virtual Instant allowed_at() const { return {}; }
  virtual void on_sent(Instant, std::uint32_t /*bytes*/) {}

 protected:
  CongestionControl() = default;
  CongestionControl(const CongestionControl&) = default;
  CongestionControl& operator=(const CongestionControl&) = default;
};

// A bounded window in units of 1/1024 packet. It is reduced at most once for each flight of packets.
class BoundedWindow {
 public:
  BoundedWindow() : BoundedWindow(CongestionControl::kFloor) {}
  explicit BoundedWindow(std::uint32_t packets_max);
  [[nodiscard]] std::uint32_t packets() const { return static_cast<std::uint32_t>(size_ >> 10); }
  [[nodiscard]] std::uint32_t packets_max() const { return static_cast<std::uint32_t>(max_ >> 10); }
  [[nodiscard]] bool starting() const { return size_ < threshold_; }
  void start_until(std::uint32_t packets);
  void grow(std::uint64_t parts);  // in units of 1/1024 packet
  void scale(std::uint32_t per_mille);
  // True if the flight of this event has already caused a reduction.
  [[nodiscard]] bool judged(const CongestionView& view) const {
    return recovering_ && view.una.before(recovery_point_);
  }
  void judge(const CongestionView& view);

 private:
  std::uint64_t size_, max_, threshold_;
  wire::Psn recovery_point_;
  bool recovering_ = false;
};

class LossControl final : public CongestionControl {
 public:
  explicit LossControl(std::uint32_t packets_max) : window_(packets_max) {}
  void on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) override;
  void on_loss(const CongestionView& view) override;
  void on_silence(const CongestionView& view) override;
  void on_mark(const CongestionView& view) override;
  [[nodiscard]] std::uint32_t window() const override { return window_.packets(); }

 private:
  BoundedWindow window_;
};

class SwiftControl final : public CongestionControl {
 public:
  explicit SwiftControl(std::uint32_t packets_max) : window_(packets_max) {}
  void on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) override;
  void on_loss(const CongestionView& view) override;
  void on_silence(const CongestionView& view) override;
  void on_mark(const CongestionView& view) override;
  [[nodiscard]] std::uint32_t window() const override { return window_.packets(); }

 private:
  [[nodiscard]] Duration target(const CongestionView& view) const;
  void watch_queue(const CongestionView& view, bool below);
  void decrease(const CongestionView& view, std::uint32_t per_mille);

  BoundedWindow window_;
  Instant last_decrease_;
  // A queue that never empties although this flow slowed down belongs to a flow that ignores delay.
  Instant last_empty_;
  Instant marked_at_;
  bool competing_ = false;
};

class DcqcnControl final : public CongestionControl {
 public:
  explicit DcqcnControl(std::uint32_t packets_max) : packets_max_(packets_max) {}
  void on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) override;
  void on_loss(const CongestionView&) override {}
  void on_silence(const CongestionView& view) override;
  void on_mark(const CongestionView& view) override;
  [[nodiscard]] std::uint32_t window() const override { return packets_max_; }
  [[nodiscard]] Instant allowed_at() const override { return rate_ == 0 ? Instant{} : next_; }
  void on_sent(Instant now, std::uint32_t octets) override;
  [[nodiscard]] std::uint64_t rate() const { return rate_; }  // bytes per second; 0: no limit

 private:
  void recover(Instant now);

  std::uint32_t packets_max_;
  std::uint64_t rate_ = 0, target_ = 0, most_ = 0;
  std::uint32_t alpha_ = 1024;  // in units of 1/1024
  std::uint32_t steps_ = 0;     // since the last cut
  Instant next_, cut_at_, alpha_at_, step_at_;
};

// Grows by one packet for each acknowledged one until the first loss, then by one for each window. A loss
// reduces the window to seven tenths, once for each window; silence reduces it to the floor.
class StrictControl final : public CongestionControl {
 public:
  explicit StrictControl(std::uint32_t packets_max)
      : size_(std::min(kStart, std::max(packets_max, kFloor))),
        max_(std::max(packets_max, kFloor)),
        threshold_(max_) {}
  void on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) override;
  void on_loss(const CongestionView& view) override;
  void on_silence(const CongestionView& view) override;
  void on_mark(const CongestionView& view) override { on_loss(view); }
  [[nodiscard]] std::uint32_t window() const override { return size_; }

 private:
  std::uint32_t size_, max_, threshold_;
  std::uint32_t credit_ = 0;
  wire::Psn recovery_point_;
  bool recovering_ = false;
};

// Implements "fixed" and "none".
class FixedControl final : public CongestionControl {
 public:
  explicit FixedControl(std::uint32_t packets) : packets_(packets) {}
  void on_arrival(const CongestionView&, std::uint32_t, bool) override {}
  void on_loss(const CongestionView&) override {}
  void on_silence(const CongestionView&) override {}
  void on_mark(const CongestionView&) override {}
  [[nodiscard]] std::uint32_t window() const override { return packets_; }

 private:
  std::uint32_t packets_;
};

// The algorithm of a QP, held by value so that a change allocates nothing.
class Congestion {
 public:
  // REQUIRES: kind is not kAutomatic; packets_max >= 1.
  void choose(CongestionKind kind, std::uint32_t packets_max, std::uint32_t fixed_packets);
  void choose_strict(std::uint32_t packets_max) { control_ = StrictControl(packets_max); }
  [[nodiscard]] CongestionKind kind() const { return kind_; }
  CongestionControl* operator->() {
    return std::visit([](auto& control) -> CongestionControl* { return &control; }, control_);
  }
  // These run for every packet. The alternatives are final, so std::visit makes no virtual call.
  [[nodiscard]] std::uint32_t window() const {
    return std::visit([](const auto& control) { return control.window(); }, control_);
  }
  [[nodiscard]] Instant allowed_at() const {
    return std::visit([](const auto& control) { return control.allowed_at(); }, control_);
  }
  void on_sent(Instant now, std::uint32_t octets) {
    std::visit([&](auto& control) { control.on_sent(now, octets); }, control_);
  }

 private:
  CongestionKind kind_ = CongestionKind::kNone;
  std::variant<FixedControl, LossControl, SwiftControl, DcqcnControl, StrictControl> control_{
      FixedControl{32}};
};

}  // namespace rrdma::transport
