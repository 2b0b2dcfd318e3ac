#include "link/fault_gate.h"

#include <gtest/gtest.h>

#include "link/test_frames.h"

namespace rrdma::link {
namespace {

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
  const FaultScope cut{.remote = kPeer, .blocked = true};
  EXPECT_EQ(sent(cut, kOurs, kPeer), 0u);
  EXPECT_EQ(sent(cut, kOurs, kThird), 100u);
}

TEST(FaultGate, DropsAboutAsManyAsItSays) {
  FaultScope lossy{.remote = kPeer};
  lossy.spec.drop_ppm = 200'000;
  const std::size_t passed = sent(lossy, kOurs, kPeer, 10'000);
  EXPECT_NEAR(static_cast<double>(passed), 8000, 160);  // four standard deviations
  EXPECT_EQ(sent(lossy, kOurs, kThird, 100), 100u);
}

TEST(FaultGate, WhatComesFromBehindABarrierIsNotSeen) {
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
  } source;
  FaultGate gate(source, {{.remote = kPeer, .blocked = true}});
  test::Collector collector;
  EXPECT_EQ(gate.poll(collector, Instant{1}, 8), 2u);
  ASSERT_EQ(collector.packets.size(), 1u);
  EXPECT_EQ(collector.packets[0].origin.source, kThird);
}

}  // namespace
}  // namespace rrdma::link
