#include "link/fault_gate.h"

#include <gtest/gtest.h>

#include "link/test_frames.h"

namespace rrdma::link::fault_gate_test {

using test::RecordingLink;

const wire::Gid kOurs = wire::gid_of_ipv4({10, 0, 0, 1});
const wire::Gid kOurOther = wire::gid_of_ipv4({10, 0, 1, 1});
const wire::Gid kPeer = wire::gid_of_ipv4({10, 0, 0, 2});
const wire::Gid kThird = wire::gid_of_ipv4({10, 0, 0, 3});

std::size_t sent(const FaultScope& scope, const wire::Gid& local, const wire::Gid& remote,
                 std::uint32_t count = 100) {
  RecordingLink inner;
  FaultGate gate(inner, {scope});
  objects::Path path;
  path.local = local;
  path.remote = remote;
  const std::uint8_t octets[16] = {};
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_TRUE(test::send(gate, path, {.psn = i, .octets = 16}, octets));
    gate.flush(Instant{1});
  }
  return inner.sent.size();
}

TEST(FaultGate, BlocksTheDeviceThatIsMeantAndNoOther) {
  const FaultScope down{.locals = {kOurs}, .blocked = true};
  EXPECT_EQ(sent(down, kOurs, kPeer), 0u);
  EXPECT_EQ(sent(down, kOurOther, kPeer), 100u);
}

TEST(FaultGate, CutsOffOnePeer) {
  const FaultScope cut{.remotes = {kPeer}, .blocked = true};
  EXPECT_EQ(sent(cut, kOurs, kPeer), 0u);
  EXPECT_EQ(sent(cut, kOurs, kThird), 100u);
}

TEST(FaultGate, DropsAboutAsManyAsItSays) {
  FaultScope lossy{.remotes = {kPeer}};
  lossy.spec.drop_ppm = 200'000;
  const std::size_t passed = sent(lossy, kOurs, kPeer, 10'000);
  EXPECT_NEAR(static_cast<double>(passed), 8000, 160);  // four standard deviations
  EXPECT_EQ(sent(lossy, kOurs, kThird, 100), 100u);
}

// A link on which packets of two peers arrive repeatedly.
class Source final : public Link {
 public:
  objects::Frame* reserve(const objects::Path&) override { return nullptr; }
  void commit(objects::Frame&) override {}
  void cancel(objects::Frame&) override {}
  void flush(Instant) override {}
  std::size_t poll(Receiver& receiver, Instant, std::size_t) override {
    for (const wire::Gid& from : {kPeer, kThird})
      receiver.on_packet({}, {.source = from, .destination = kOurs});
    return 2;
  }
  std::span<const LinkCounter> counters() override { return {}; }
};

std::size_t arrived(const FaultScope& scope, int polls = 1) {
  Source source;
  FaultGate gate(source, {scope});
  test::Collector collector;
  for (int i = 0; i < polls; ++i) EXPECT_EQ(gate.poll(collector, Instant{1}, 8), 2u);
  return collector.packets.size();
}

TEST(FaultGate, WhatComesFromBehindABarrierIsNotSeen) {
  EXPECT_EQ(arrived({.remotes = {kPeer}, .blocked = true}), 1u);
  EXPECT_EQ(arrived({.blocked = true}), 0u);
}

TEST(FaultGate, ABarrierMayStandInOneDirection) {
  const FaultScope out{.blocked = true, .inbound = false}, in{.blocked = true, .outbound = false};
  EXPECT_EQ(sent(out, kOurs, kPeer), 0u);
  EXPECT_EQ(arrived(out), 2u);
  EXPECT_EQ(sent(in, kOurs, kPeer), 100u);
  EXPECT_EQ(arrived(in), 0u);
}

TEST(FaultGate, LosesSomeOfWhatArrives) {
  FaultScope lossy{.remotes = {kPeer}, .outbound = false};
  lossy.spec.drop_ppm = 200'000;
  EXPECT_NEAR(static_cast<double>(arrived(lossy, 10'000)), 18'000, 160);  // four standard deviations
  EXPECT_EQ(sent(lossy, kOurs, kPeer), 100u);
}

TEST(FaultGate, CountersGoOnBehindTheNextGate) {
  RecordingLink inner;
  FaultGate first(inner, {{.blocked = true}});
  const std::uint8_t octets[16] = {};
  EXPECT_TRUE(test::send(first, {}, {.psn = 1, .octets = 16}, octets));
  FaultGate second(inner, {{.remotes = {kPeer}, .blocked = true}}, first.tally());
  EXPECT_EQ(second.tally().blocked, 1u);
}

}  // namespace rrdma::link::fault_gate_test
