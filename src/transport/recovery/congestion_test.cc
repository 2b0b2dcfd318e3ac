#include "transport/recovery/congestion.h"

#include <gtest/gtest.h>

namespace rrdma::transport::congestion_test {

constexpr std::uint32_t kMost = 128;
constexpr Duration kBase = microseconds(50);

// A path with given round trips, and PSNs that advance.
class Path {
 public:
  explicit Path(Congestion& congestion) : congestion_(congestion) { trip_.sample(kBase, now_); }

  // `packets` packets are acknowledged after `rtt`.
  void arrive(Duration rtt, std::uint32_t packets = 1) {
    now_ = now_ + rtt / std::max<std::int64_t>(congestion_->window(), 1);
    trip_.sample(rtt, now_);
    una_ = una_ + packets;
    sent_ = una_ + congestion_->window();
    congestion_->on_arrival(view(), packets, true);
  }
  void arrive_for(Duration rtt, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) arrive(rtt);
  }
  void wait(Duration time) { now_ = now_ + time; }
  void lose() { congestion_->on_loss(view()); }
  void mark() { congestion_->on_mark(view()); }
  void fall_silent() { congestion_->on_silence(view()); }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::uint32_t window() const { return congestion_->window(); }

 private:
  [[nodiscard]] CongestionView view() const { return {now_, una_, sent_, trip_, 4096}; }

  Congestion& congestion_;
  RoundTrip trip_;
  Instant now_{seconds(1).ns};
  wire::Psn una_{0}, sent_{32};
};

Congestion chosen(CongestionKind kind) {
  Congestion congestion;
  congestion.choose(kind, kMost, 64);
  return congestion;
}

TEST(Congestion, NamesAreReadAsTheyAreWritten) {
  for (const auto kind : {CongestionKind::kAutomatic, CongestionKind::kLoss, CongestionKind::kSwift,
                          CongestionKind::kDcqcn, CongestionKind::kFixed, CongestionKind::kNone}) {
    EXPECT_EQ(parse_congestion_kind(describe(kind)), kind);
  }
  EXPECT_FALSE(parse_congestion_kind("cubic").has_value());
}

TEST(Congestion, FixedStaysAndNoneIsTheBuffer) {
  Congestion fixed = chosen(CongestionKind::kFixed), none = chosen(CongestionKind::kNone);
  for (Congestion* congestion : {&fixed, &none}) {
    Path path(*congestion);
    const std::uint32_t before = path.window();
    path.arrive_for(kBase, 100);
    path.lose();
    path.mark();
    path.fall_silent();
    EXPECT_EQ(path.window(), before);
  }
  EXPECT_EQ(fixed->window(), 64u);
  EXPECT_EQ(none->window(), kMost);
}

// ---- loss ----

TEST(LossControl, ALoneLossCostsATwentiethAndOneWithDelayThreeTenths) {
  Congestion congestion = chosen(CongestionKind::kLoss);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  ASSERT_EQ(path.window(), kMost);
  path.lose();
  EXPECT_EQ(path.window(), kMost * 95 / 100);
  path.lose();  // in the same flight
  EXPECT_EQ(path.window(), kMost * 95 / 100);
  path.arrive_for(microseconds(400), kMost + 1);
  const std::uint32_t before = path.window();
  path.lose();
  EXPECT_NEAR(path.window(), before * 0.7, 1.5);
}

TEST(LossControl, SilenceLeavesTheFloor) {
  Congestion congestion = chosen(CongestionKind::kLoss);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  path.fall_silent();
  EXPECT_EQ(path.window(), CongestionControl::kFloor);
  path.arrive_for(kBase, 20);
  EXPECT_GT(path.window(), 10u);  // slow start begins again
}

// ---- Swift ----

TEST(Swift, GrowsWhileTheDelayIsThatOfThePath) {
  Congestion congestion = chosen(CongestionKind::kSwift);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  EXPECT_EQ(path.window(), kMost);
}

TEST(Swift, GivesWayToDelayOnceARoundTripAndInProportion) {
  Congestion congestion = chosen(CongestionKind::kSwift);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  path.arrive(kBase * 20);
  const std::uint32_t once = path.window();
  EXPECT_LT(once, kMost);
  EXPECT_GE(once, kMost / 2);  // at most half in one step
  path.arrive(kBase * 20);
  EXPECT_EQ(path.window(), once);  // reduced once for each queue
  path.wait(kBase * 40);
  path.arrive(kBase * 20);
  EXPECT_LT(path.window(), once);
}

TEST(Swift, NoiseCostsNothing) {
  Congestion congestion = chosen(CongestionKind::kSwift);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  for (int i = 0; i < 50; ++i) {
    path.lose();
    path.arrive_for(kBase, 10);
  }
  EXPECT_EQ(path.window(), kMost);
}

TEST(Swift, AMarkAndSilenceCost) {
  Congestion congestion = chosen(CongestionKind::kSwift);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  path.mark();
  EXPECT_NEAR(path.window(), kMost * 0.7, 1.5);
  path.fall_silent();
  EXPECT_NEAR(path.window(), kMost * 0.35, 1.5);
}

// A queue that stays full although we slowed down belongs to another flow. Then losses are shared as with
// TCP.
TEST(Swift, HoldsItsOwnAgainstWhoFillsTheQueue) {
  Congestion congestion = chosen(CongestionKind::kSwift);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  for (int i = 0; i < 100; ++i) {
    path.wait(kBase * 10);
    path.arrive(kBase * 10);
  }
  const std::uint32_t pressed = path.window();
  path.arrive_for(kBase * 10, 400);
  EXPECT_GT(path.window(), pressed);  // grows, although delay alone would shrink it
  const std::uint32_t before = path.window();
  path.lose();
  EXPECT_NEAR(path.window(), before * 0.7, 1.5);
}

// ---- DCQCN ----

TEST(Dcqcn, IsUnlimitedUntilTheFirstNotification) {
  Congestion congestion = chosen(CongestionKind::kDcqcn);
  Path path(congestion);
  path.arrive_for(kBase, 100);
  EXPECT_EQ(congestion->window(), kMost);
  EXPECT_EQ(congestion->allowed_at(), Instant{});
}

// Bytes that pacing allows in one millisecond.
std::uint64_t paced(Congestion& congestion, Path& path) {
  std::uint64_t octets = 0;
  const Instant end = path.now() + milliseconds(1);
  for (Instant now = path.now(); now < end; now = now + microseconds(1)) {
    while (congestion->allowed_at() <= now && octets < 1u << 30) {
      congestion->on_sent(now, 4096);
      octets += 4096;
    }
  }
  path.wait(milliseconds(1));
  return octets;
}

TEST(Dcqcn, ANotificationCutsTheRateAndTimeBringsItBack) {
  Congestion congestion = chosen(CongestionKind::kDcqcn);
  Path path(congestion);
  path.arrive_for(kBase, 100);
  path.mark();
  const std::uint64_t whole =
      std::uint64_t{kMost} * 4096 * 20;  // one window in 50 us, extended to a millisecond
  const std::uint64_t cut = paced(congestion, path);
  EXPECT_NEAR(static_cast<double>(cut), static_cast<double>(whole) / 2,
              static_cast<double>(whole) / 10);  // alpha is 1
  for (int i = 0; i < 3; ++i) {
    path.wait(microseconds(50));
    path.mark();
  }
  const std::uint64_t low = paced(congestion, path);
  EXPECT_LT(low, cut / 2);
  for (int i = 0; i < 200; ++i) {
    path.wait(microseconds(300));
    path.arrive(kBase);
  }
  EXPECT_GT(paced(congestion, path), cut);
}

TEST(Dcqcn, NeverStopsAltogether) {
  Congestion congestion = chosen(CongestionKind::kDcqcn);
  Path path(congestion);
  for (int i = 0; i < 1000; ++i) path.mark();
  congestion->on_sent(path.now(), 4096);
  EXPECT_LE(congestion->allowed_at(), path.now() + milliseconds(10));
}

// ---- strict ----

TEST(StrictControl, ALossOrAMarkCostsThreeTenthsOnceInAFlight) {
  Congestion congestion;
  congestion.choose_strict(kMost);
  Path path(congestion);
  EXPECT_EQ(path.window(), CongestionControl::kStart);
  path.arrive_for(kBase, 500);
  ASSERT_EQ(path.window(), kMost);
  path.lose();
  const std::uint32_t reduced = kMost * 7 / 10;
  EXPECT_EQ(path.window(), reduced);
  path.mark();  // in the same flight
  EXPECT_EQ(path.window(), reduced);
  path.arrive_for(kBase, reduced);
  EXPECT_EQ(path.window(), reduced + 1);  // one packet for each window
}

TEST(StrictControl, SilenceLeavesTheFloor) {
  Congestion congestion;
  congestion.choose_strict(kMost);
  Path path(congestion);
  path.arrive_for(kBase, 500);
  path.fall_silent();
  EXPECT_EQ(path.window(), CongestionControl::kFloor);
  path.arrive_for(kBase, 20);
  EXPECT_EQ(path.window(), CongestionControl::kFloor + 20);
}

}  // namespace rrdma::transport::congestion_test
