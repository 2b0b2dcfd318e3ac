#include "link/arrival_faults.h"

#include <gtest/gtest.h>

#include <vector>

namespace rrdma::link::arrival_faults_test {

// Records the PSN, time and mark of each delivered packet.
class Witness final : public Receiver {
 public:
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    psns.push_back(packet.headers.bth.psn.value);
    times.push_back(now);
    marked += origin.ecn_marked ? 1 : 0;
    for (std::size_t i = 0; i < packet.payload.size(); ++i)
      damaged = damaged || packet.payload[i] != static_cast<std::uint8_t>(packet.headers.bth.psn.value + i);
    damaged = damaged || (origin.grh != nullptr && origin.grh[39] != 0x5a);
  }

  Instant now{};
  std::vector<std::uint32_t> psns;
  std::vector<Instant> times;
  std::uint32_t marked = 0;
  bool damaged = false;
};

struct Arrival {
  FaultSpec spec;
  std::uint32_t count = 10'000;
  std::size_t octets = 64;
  Duration gap = microseconds(1);
};

struct Outcome {
  Witness witness;
  FaultCounters tally;
};

// Delivers packets one by one, overwrites their memory at once, and lets time pass until all are through.
Outcome arrive(const Arrival& arrival) {
  Outcome outcome;
  ArrivalFaults faults(arrival.spec);
  Instant& now = outcome.witness.now;
  for (std::uint32_t psn = 0; psn < arrival.count; ++psn, now = now + arrival.gap) {
    std::vector<std::uint8_t> payload(arrival.octets), grh(40, 0x5a);
    for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::uint8_t>(psn + i);
    wire::TransportPacket packet{.payload = payload};
    packet.headers.bth.opcode = wire::Opcode(0x04);
    packet.headers.bth.psn = wire::Psn(psn);
    (void)faults.take(packet, {.grh = grh.data()}, outcome.witness, now);
    (void)faults.release(outcome.witness, now);
  }
  while (faults.next_deadline() != kNever) {
    now = std::max(now, faults.next_deadline());
    (void)faults.release(outcome.witness, now);
  }
  EXPECT_FALSE(outcome.witness.damaged);
  outcome.tally = faults.tally();
  return outcome;
}

constexpr double kFourSigma = 120;  // of 10,000 at one in ten: sqrt(10000 * 0.1 * 0.9) * 4

TEST(ArrivalFaults, WithoutFaultsAllPassesInItsOrder) {
  const Outcome outcome = arrive({});
  ASSERT_EQ(outcome.witness.psns.size(), 10'000u);
  EXPECT_TRUE(std::is_sorted(outcome.witness.psns.begin(), outcome.witness.psns.end()));
}

TEST(ArrivalFaults, LosesDoublesMarksAndCorruptsAsManyAsItSays) {
  const Outcome lost = arrive({.spec = {.drop_ppm = 100'000}});
  EXPECT_NEAR(static_cast<double>(lost.tally.dropped), 1000, kFourSigma);
  EXPECT_EQ(lost.witness.psns.size(), 10'000u - lost.tally.dropped);
  const Outcome doubled = arrive({.spec = {.duplicate_ppm = 100'000}});
  EXPECT_NEAR(static_cast<double>(doubled.tally.duplicated), 1000, kFourSigma);
  EXPECT_EQ(doubled.witness.psns.size(), 10'000u + doubled.tally.duplicated);
  const Outcome marked = arrive({.spec = {.ecn_ppm = 100'000}});
  EXPECT_NEAR(static_cast<double>(marked.witness.marked), 1000, kFourSigma);
  EXPECT_EQ(marked.tally.marked, marked.witness.marked);
  const Outcome corrupted = arrive({.spec = {.corrupt_ppm = 100'000}});
  EXPECT_NEAR(static_cast<double>(corrupted.tally.corrupted), 1000, kFourSigma);
  EXPECT_EQ(corrupted.witness.psns.size(), 10'000u - corrupted.tally.corrupted);
}

TEST(ArrivalFaults, LosesInRuns) {
  const Outcome outcome = arrive({.spec = {.drop_ppm = 100'000, .burst = 10}, .count = 100'000});
  std::uint32_t runs = 0, next = 0;
  for (const std::uint32_t psn : outcome.witness.psns) {
    runs += psn != next ? 1 : 0;
    next = psn + 1;
  }
  EXPECT_NEAR(static_cast<double>(outcome.tally.dropped) / runs, 10, 1.5);
}

TEST(ArrivalFaults, LongOnesVanish) {
  EXPECT_EQ(arrive({.spec = {.mtu = 512}, .count = 10, .octets = 512}).witness.psns.size(), 10u);
  const Outcome outcome = arrive({.spec = {.mtu = 512}, .count = 10, .octets = 513});
  EXPECT_TRUE(outcome.witness.psns.empty());
  EXPECT_EQ(outcome.tally.too_long, 10u);
}

TEST(ArrivalFaults, DelaysWithinTheSpread) {
  const Outcome outcome =
      arrive({.spec = {.delay = milliseconds(1), .delay_spread = microseconds(200)}, .count = 1000});
  ASSERT_EQ(outcome.witness.psns.size(), 1000u);
  EXPECT_EQ(outcome.tally.delayed, 1000u);
  Duration least = seconds(1), most{};
  for (std::size_t i = 0; i < 1000; ++i) {
    const Duration waited = outcome.witness.times[i] - Instant{std::int64_t{outcome.witness.psns[i]} * 1000};
    least = std::min(least, waited);
    most = std::max(most, waited);
  }
  EXPECT_GE(least, microseconds(800));
  EXPECT_LE(least, microseconds(820));
  EXPECT_GE(most, microseconds(1180));
  EXPECT_LE(most, microseconds(1201));
}

TEST(ArrivalFaults, ASlowCableTakesItsTime) {
  // 1000 packets of 64 bytes, with 12 of BTH and 50 of outer headers: 126 bytes each.
  const Outcome outcome = arrive({.spec = {.rate_kbps = 100'000}, .count = 1000});
  ASSERT_EQ(outcome.witness.psns.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(outcome.witness.psns.begin(), outcome.witness.psns.end()));
  EXPECT_EQ(outcome.witness.times.back().ns, 1000 * 126 * 8 * 10);
}

TEST(ArrivalFaults, ReordersByAsMuchAsTheDepthAllows) {
  const Outcome outcome = arrive({.spec = {.reorder_ppm = 100'000, .depth = 3}});
  ASSERT_EQ(outcome.witness.psns.size(), 10'000u);
  EXPECT_NEAR(static_cast<double>(outcome.tally.reordered), 1000, kFourSigma);
  std::uint32_t late = 0, highest = 0;
  for (const std::uint32_t psn : outcome.witness.psns) {
    late += psn < highest ? 1 : 0;
    EXPECT_LE(psn < highest ? highest - psn : 0, 3u + 3u);  // other packets are late as well
    highest = std::max(highest, psn);
  }
  EXPECT_GT(late, 800u);
}

TEST(ArrivalFaults, WhatFindsNoRoomIsLost) {
  const Outcome outcome =
      arrive({.spec = {.delay = seconds(1)}, .count = ArrivalFaults::kHeldMax + 10, .gap = nanoseconds(1)});
  EXPECT_EQ(outcome.witness.psns.size(), ArrivalFaults::kHeldMax);
  EXPECT_EQ(outcome.tally.dropped, 10u);
}

}  // namespace rrdma::link::arrival_faults_test
