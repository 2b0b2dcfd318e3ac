#include "transport/recovery/congestion.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rrdma::transport {

namespace {

constexpr std::uint64_t kOne = 1024;

constexpr std::array<std::pair<std::string_view, CongestionKind>, 6> kKindNames = {{
    {"auto", CongestionKind::kAutomatic},
    {"loss", CongestionKind::kLoss},
    {"swift", CongestionKind::kSwift},
    {"dcqcn", CongestionKind::kDcqcn},
    {"fixed", CongestionKind::kFixed},
    {"none", CongestionKind::kNone},
}};

// Software endpoints add scheduling delay of their own. Delay below this slack does not count as queueing.
constexpr Duration kDelaySlack = microseconds(100);

bool delay_rises(const RoundTrip& round_trip) {
  return round_trip.measured() && round_trip.latest() > round_trip.minimum() * 2 + kDelaySlack;
}

}  // namespace

std::string_view describe(CongestionKind kind) { return kKindNames[static_cast<std::size_t>(kind)].first; }

std::optional<CongestionKind> parse_congestion_kind(std::string_view name) {
  for (const auto& [known, kind] : kKindNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

// ---- BoundedWindow ----

BoundedWindow::BoundedWindow(std::uint32_t packets_max)
    : size_(std::min(CongestionControl::kStart, std::max(packets_max, CongestionControl::kFloor)) * kOne),
      max_(std::max(packets_max, CongestionControl::kFloor) * kOne),
      threshold_(max_) {}

void BoundedWindow::start_until(std::uint32_t packets) {
  threshold_ = std::clamp(packets * kOne, CongestionControl::kFloor * kOne, max_);
}

void BoundedWindow::grow(std::uint64_t parts) { size_ = std::min(size_ + parts, max_); }

void BoundedWindow::scale(std::uint32_t per_mille) {
  size_ = std::clamp(size_ * per_mille / 1000, CongestionControl::kFloor * kOne, max_);
  threshold_ = size_;
}

void BoundedWindow::judge(const CongestionView& view) {
  recovering_ = true;
  recovery_point_ = view.sent;
}

// ---- loss ----

void LossControl::on_arrival(const CongestionView&, std::uint32_t packets, bool) {
  if (window_.starting()) {
    window_.grow(packets * kOne);
  } else {
    window_.grow(packets * kOne / std::max(window_.packets(), 1u));
  }
}

// A loss while the delay stays unchanged is noise, not an overflowing queue.
void LossControl::on_loss(const CongestionView& view) {
  if (window_.judged(view)) return;
  window_.judge(view);
  window_.scale(delay_rises(view.round_trip) ? 700 : 950);
}

void LossControl::on_silence(const CongestionView& view) {
  const std::uint32_t before = window_.packets();
  window_.judge(view);
  window_.scale(0);
  window_.start_until(before / 2);
}

void LossControl::on_mark(const CongestionView& view) {
  if (window_.judged(view)) return;
  window_.judge(view);
  window_.scale(800);
}

// ---- Swift ----

namespace {

constexpr std::uint32_t kMostDecrease = 500;                 // per mille
constexpr std::uint32_t kBeta = 800;                         // per mille of the excess
constexpr std::uint64_t kIncrease = kOne;                    // in one round trip
constexpr std::uint64_t kCompetingIncrease = kOne * 9 / 17;  // CUBIC's growth at short round trips
constexpr std::int64_t kRoundTripsUntilCompeting = 24;
constexpr std::int64_t kRoundTripsAfterMark = 256;

std::uint32_t root_of(std::uint32_t value) {
  std::uint32_t root = 1;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

}  // namespace

// The target is the path without queues plus a queueing share for each flow. Flows with small windows get a
// larger share, so they grow while flows with large windows shrink.
Duration SwiftControl::target(const CongestionView& view) const {
  const Duration base = view.round_trip.minimum();
  const Duration room = std::max(kDelaySlack, base / 2);
  return base + room / 2 + room * 2 / root_of(std::max(window_.packets(), kFloor));
}

void SwiftControl::watch_queue(const CongestionView& view, bool below) {
  if (last_empty_.ns == 0 || below) last_empty_ = view.now;
  const Duration patience = view.round_trip.smoothed() * kRoundTripsUntilCompeting;
  competing_ = view.now - last_empty_ > patience;
}

void SwiftControl::on_arrival(const CongestionView& view, std::uint32_t packets, bool sampled) {
  const bool below = view.round_trip.latest() <= target(view);
  if (sampled) watch_queue(view, below);
  if (!below && sampled && !competing_) {
    const std::int64_t excess = (view.round_trip.latest() - target(view)).ns * kBeta;
    const auto cut = static_cast<std::uint32_t>(excess / view.round_trip.latest().ns);
    decrease(view, 1000 - std::min(cut, kMostDecrease));
    return;
  }
  if (window_.starting() && below) {
    window_.grow(packets * kOne);
  } else if (below || competing_) {
    const bool beside_others =
        competing_ ||
        (marked_at_.ns != 0 && view.now - marked_at_ < view.round_trip.smoothed() * kRoundTripsAfterMark);
    window_.grow(packets * (beside_others ? kCompetingIncrease : kIncrease) /
                 std::max(window_.packets(), 1u));
  }
}

void SwiftControl::decrease(const CongestionView& view, std::uint32_t per_mille) {
  if (view.now - last_decrease_ < view.round_trip.smoothed() && last_decrease_.ns != 0) return;
  last_decrease_ = view.now;
  window_.scale(per_mille);
}

// The delay already reports our own queueing. A loss counts only if another flow fills the queue.
void SwiftControl::on_loss(const CongestionView& view) {
  if (window_.judged(view)) return;
  window_.judge(view);
  if (competing_) {
    window_.scale(700);
  } else if (delay_rises(view.round_trip)) {
    decrease(view, 1000 - kMostDecrease / 2);
  }
}

void SwiftControl::on_silence(const CongestionView& view) {
  window_.judge(view);
  window_.scale(1000 - kMostDecrease);
}

// A queue that gets marked although we control delay may be shared with flows that do not.
void SwiftControl::on_mark(const CongestionView& view) {
  marked_at_ = view.now;
  if (window_.judged(view)) return;
  window_.judge(view);
  window_.scale(700);  // CUBIC's reduction on loss, which is the signal it gets where we get marks
}

// ---- DCQCN ----

namespace {

constexpr std::uint32_t kAlphaGain = 16;
constexpr Duration kAlphaPeriod = microseconds(55);
constexpr Duration kStepPeriod = microseconds(300);
constexpr std::uint32_t kFastSteps = 5;
constexpr std::uint64_t kLeastRate = 1'000'000;  // bytes per second
constexpr std::uint32_t kAdditiveShare = 64;     // a step regains 1/64 of the highest rate seen
constexpr Duration kBurst = microseconds(50);    // data that may be sent at once

}  // namespace

// The rate is unlimited until the first notification, and then starts from the bandwidth in use at that
// moment.
void DcqcnControl::on_mark(const CongestionView& view) {
  if (rate_ == 0) {
    const auto octets = std::uint64_t{packets_max_} * view.packet_octets;
    const auto trip = static_cast<std::uint64_t>(std::max<std::int64_t>(view.round_trip.smoothed().ns, 1000));
    rate_ = most_ = std::max(octets * 1'000'000'000 / trip, kLeastRate);
    alpha_at_ = view.now;
  }
  target_ = rate_;
  alpha_ = alpha_ - alpha_ / kAlphaGain + 1024 / kAlphaGain;
  rate_ = std::max(rate_ - rate_ * alpha_ / 2048, kLeastRate);
  cut_at_ = alpha_at_ = step_at_ = view.now;
  steps_ = 0;
}

void DcqcnControl::on_silence(const CongestionView& view) {
  if (rate_ == 0) return;
  rate_ = std::max(rate_ / 2, kLeastRate);
  step_at_ = view.now;
}

// Timer steps are counted when an answer arrives: without answers there is nothing to speed up.
void DcqcnControl::recover(Instant now) {
  for (; now - alpha_at_ >= kAlphaPeriod && alpha_ > 1; alpha_at_ = alpha_at_ + kAlphaPeriod)
    alpha_ -= std::max(alpha_ / kAlphaGain, 1u);
  if (now - alpha_at_ >= kAlphaPeriod) alpha_at_ = now;
  for (int i = 0; now - step_at_ >= kStepPeriod && i < 64; ++i, step_at_ = step_at_ + kStepPeriod) {
    if (++steps_ > kFastSteps) target_ = std::min(target_ + most_ / kAdditiveShare, most_);
    rate_ = std::max((rate_ + target_) / 2, kLeastRate);
  }
  if (now - step_at_ >= kStepPeriod) step_at_ = now;
}

void DcqcnControl::on_arrival(const CongestionView& view, std::uint32_t, bool) {
  if (rate_ != 0) recover(view.now);
}

void DcqcnControl::on_sent(Instant now, std::uint32_t octets) {
  if (rate_ == 0) return;
  const Instant from = std::max(next_, now - kBurst);
  next_ = from + nanoseconds(static_cast<std::int64_t>(octets * std::uint64_t{1'000'000'000} / rate_));
}

// ---- strict ----

void StrictControl::on_arrival(const CongestionView& view, std::uint32_t packets, bool) {
  if (recovering_ && !view.una.before(recovery_point_)) recovering_ = false;
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

void StrictControl::on_loss(const CongestionView& view) {
  if (recovering_) return;
  recovering_ = true;
  recovery_point_ = view.sent;
  size_ = threshold_ = std::max(size_ * 7 / 10, kFloor);
  credit_ = 0;
}

void StrictControl::on_silence(const CongestionView& view) {
  recovering_ = true;
  recovery_point_ = view.sent;
  threshold_ = std::max(size_ / 2, kFloor);
  size_ = kFloor;
  credit_ = 0;
}

// ---- choice ----

void Congestion::choose(CongestionKind kind, std::uint32_t packets_max, std::uint32_t fixed_packets) {
  kind_ = kind;
  switch (kind) {
    case CongestionKind::kLoss: control_ = LossControl(packets_max); break;
    case CongestionKind::kSwift: control_ = SwiftControl(packets_max); break;
    case CongestionKind::kDcqcn: control_ = DcqcnControl(packets_max); break;
    case CongestionKind::kFixed: control_ = FixedControl(std::clamp(fixed_packets, 1u, packets_max)); break;
    default: control_ = FixedControl(packets_max); break;
  }
}

}  // namespace rrdma::transport
