// Which links a poll checks, and when.
#include "nic/links/link_switch.h"

#include <gtest/gtest.h>

#include <utility>

namespace rrdma::nic::link_switch_test {

class FakeLink final : public link::Link {
 public:
  objects::Frame* reserve(const objects::Path&) override { return nullptr; }
  void commit(objects::Frame&) override {}
  void flush(Instant) override {}
  std::size_t poll(link::Receiver&, Instant, std::size_t) override {
    ++looks;
    return std::exchange(waiting, 0);
  }
  [[nodiscard]] std::span<const link::LinkCounter> counters() override { return {}; }
  std::size_t waiting = 0;
  int looks = 0;
};

class LinkSwitchPoll : public testing::Test, protected link::Receiver {
 protected:
  LinkSwitchPoll() {
    links.attach(kShmLink, &near);
    links.attach(kUdpLink, &far);
  }
  std::size_t poll_at(std::int64_t us) { return links.poll(*this, Instant{us * 1000}, 64); }
  void on_packet(const wire::TransportPacket&, const objects::PacketOrigin&) override {}

  FakeLink near, far;
  LinkSwitch links;
};

TEST_F(LinkSwitchPoll, LooksAtTheNetworkEachTimeWhileSharedMemoryIsQuiet) {
  for (int us = 1; us <= 5; ++us) poll_at(us);
  EXPECT_EQ(far.looks, 5);
}

TEST_F(LinkSwitchPoll, LooksAtTheNetworkNowAndThenWhileSharedMemoryIsBusy) {
  for (int us = 0; us < 3200; ++us) {
    near.waiting = 1;
    poll_at(us);
  }
  // At 0, 40, 120, 280, 600, and then every 320.
  EXPECT_GE(far.looks, 10);
  EXPECT_LE(far.looks, 14);
  EXPECT_EQ(near.looks, 3200);
}

TEST_F(LinkSwitchPoll, LooksOftenAgainAtANetworkThatBroughtSomething) {
  for (int us = 0; us < 3200; ++us) {
    near.waiting = 1;
    poll_at(us);
  }
  far.waiting = 1;
  int us = 3200;
  for (; far.waiting != 0; ++us) {
    near.waiting = 1;
    poll_at(us);
  }
  EXPECT_LE(us, 3200 + 321);
  far.looks = 0;
  for (int end = us + 100; us < end; ++us) {
    near.waiting = 1;
    poll_at(us);
  }
  EXPECT_GE(far.looks, 2);
}

TEST_F(LinkSwitchPoll, StaysWithANetworkThatBringsSomething) {
  near.waiting = far.waiting = 1;
  EXPECT_EQ(poll_at(100), 2u);
  far.waiting = 1;
  EXPECT_EQ(poll_at(101), 1u);
}

TEST_F(LinkSwitchPoll, LeavesNothingOutForWhoeverGoesToSleep) {
  near.waiting = 1;
  poll_at(100);
  far.waiting = 1;
  EXPECT_EQ(poll_at(101), 0u);
  EXPECT_EQ(links.poll_all(*this, Instant{102'000}, 64), 1u);
}

}  // namespace rrdma::nic::link_switch_test
