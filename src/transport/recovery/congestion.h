// Congestion control: how much of a QP may be under way, and how fast it goes out. One interface, several
// answers; docs/adr/0018 names the papers. All arithmetic is in integers, so that a run is the same everywhere.
//
//   loss    towards strangers: grows until something is lost, marked or delayed; a lone loss costs little
//   swift   between our own ends: keeps the delay near a target (the default there)
//   dcqcn   a rate, cut by congestion notifications and regained in steps, as hardware NICs do it
//   fixed   a window that stays
//   none    as much as the receiver's buffer is taken to hold (the default on one host)
#pragma once

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

// What an algorithm is told with each event.
struct CongestionView {
  Instant now;
  wire::Psn una;                // oldest unfinished PSN
  wire::Psn sent;               // one past the last one sent
  const RoundTrip& round_trip;  // with the sample of this event, if it brought one
  std::uint32_t packet_octets;  // of a full packet
};

class CongestionControl {
 public:
  static constexpr std::uint32_t kFloor = 2;   // packets
  static constexpr std::uint32_t kStart = 32;  // packets
  virtual ~CongestionControl() = default;

  // So many more packets have arrived; `sampled`: the round trip was measured by it.
  virtual void on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) = 0;
  virtual void on_loss(const CongestionView& view) = 0;     // a gap was found
  virtual void on_silence(const CongestionView& view) = 0;  // a whole ack timeout without an answer
  virtual void on_mark(const CongestionView& view) = 0;     // a congestion notification came
  [[nodiscard]] virtual std::uint32_t window() const = 0;   // packets
  // When the next packet may go, and that so much has gone. Windows alone do not pace.
  [[nodiscard]] virtual Instant allowed_at() const { return {}; }
  virtual void on_sent(Instant, std::uint32_t /*octets*/) {}

 protected:
  CongestionControl() = default;
  CongestionControl(const CongestionControl&) = default;
  CongestionControl& operator=(const CongestionControl&) = default;
};

// A window in 1/1024 of a packet, with bounds, that is reduced at most once for each flight of packets.
class BoundedWindow {
 public:
  BoundedWindow() : BoundedWindow(CongestionControl::kFloor) {}
  explicit BoundedWindow(std::uint32_t packets_max);
  [[nodiscard]] std::uint32_t packets() const { return static_cast<std::uint32_t>(size_ >> 10); }
  [[nodiscard]] std::uint32_t packets_max() const { return static_cast<std::uint32_t>(max_ >> 10); }
  [[nodiscard]] bool starting() const { return size_ < threshold_; }
  void start_until(std::uint32_t packets);
  void grow(std::uint64_t parts);  // of 1024
  void scale(std::uint32_t per_mille);
  // What was found now belongs to a flight that was judged already.
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
  [[nodiscard]] bool competing() const { return competing_; }

 private:
  [[nodiscard]] Duration target(const CongestionView& view) const;
  void watch_queue(const CongestionView& view, bool below);
  void decrease(const CongestionView& view, std::uint32_t per_mille);

  BoundedWindow window_;
  Instant last_decrease_;
  // A queue that never empties although this flow gave way is another's, who does not care for delay.
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
  [[nodiscard]] std::uint64_t rate() const { return rate_; }  // octets in a second; 0: no limit

 private:
  void recover(Instant now);

  std::uint32_t packets_max_;
  std::uint64_t rate_ = 0, target_ = 0, most_ = 0;
  std::uint32_t alpha_ = 1024;  // of 1024
  std::uint32_t steps_ = 0;     // since the last cut
  Instant next_, cut_at_, alpha_at_, step_at_;
};

// "fixed" and "none".
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

// The one that a QP has: by value, so that nothing is allocated when it changes.
class Congestion {
 public:
  // REQUIRES: kind is not kAutomatic; packets_max >= 1.
  void choose(CongestionKind kind, std::uint32_t packets_max, std::uint32_t fixed_packets);
  [[nodiscard]] CongestionKind kind() const { return kind_; }
  CongestionControl* operator->() {
    return std::visit([](auto& control) -> CongestionControl* { return &control; }, control_);
  }
  // What every packet asks, without a call: the kinds are final.
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
  std::variant<FixedControl, LossControl, SwiftControl, DcqcnControl> control_{FixedControl{32}};
};

}  // namespace rrdma::transport
