// Tests the simulated network itself: delivery, timing, losses, and that one seed is one run.
#include "link/sim/sim_network.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "link/sim/sim_frame.h"
#include "wire/crc32.h"

namespace rrdma::link::sim_network_test {

class Inbox final : public Receiver {
 public:
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    psns.push_back(packet.headers.bth.psn.value);
    payloads.emplace_back(packet.payload.begin(), packet.payload.end());
    marked += origin.ecn_marked;
    source = origin.source;
  }
  std::vector<std::uint32_t> psns;
  std::vector<std::vector<std::uint8_t>> payloads;
  int marked = 0;
  wire::Gid source;
};

class Network : public ::testing::TestWithParam<bool> {
 protected:
  void start(std::uint64_t seed, const HostProperties& properties = {}) {
    network = std::make_unique<SimNetwork>(seed);
    network->add_host(properties);
    network->add_host(properties);
    path = {};
    path.local = GetParam() ? SimNetwork::ipv6_gid(0) : SimNetwork::ipv4_gid(0);
    path.remote = GetParam() ? SimNetwork::ipv6_gid(1) : SimNetwork::ipv4_gid(1);
    path.source_port = 0xc123;
    path.traffic_class = 2;  // ECN-capable
    inbox = {};
    now = {};
  }
  bool send(std::uint32_t psn, std::size_t octets) {
    SimLink& link = network->link(0);
    objects::Frame* frame = link.reserve(path);
    if (frame == nullptr) return false;
    payload.resize(octets);
    for (std::size_t i = 0; i < octets; ++i) payload[i] = static_cast<std::uint8_t>(psn + i);
    wire::TransportHeaders headers;
    headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly);
    headers.bth.psn = wire::Psn(psn);
    headers.bth.pad = frame->pad = wire::pad_for(octets);
    frame->header_octets =
        static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
    frame->add_span(payload.data(), octets / 2);
    frame->add_span(payload.data() + octets / 2, octets - octets / 2);
    link.commit(*frame);
    link.flush(now);
    return true;
  }
  void run_dry() {
    while (network->next_event() != kNever) {
      now = network->next_event();
      network->advance(now);
      while (network->link(1).poll(inbox, now, 16) != 0) {
      }
    }
  }

  std::unique_ptr<SimNetwork> network;
  objects::Path path;
  std::vector<std::uint8_t> payload;
  Inbox inbox;
  Instant now;
};

TEST_P(Network, CarriesPacketsInOrderAndUnaltered) {
  start(1);
  for (std::uint32_t i = 0; i < 50; ++i) ASSERT_TRUE(send(i, i * 7));
  run_dry();
  ASSERT_EQ(inbox.psns.size(), 50u);
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(inbox.psns[i], i);
    ASSERT_EQ(inbox.payloads[i].size(), i * 7);
    for (std::size_t k = 0; k < inbox.payloads[i].size(); ++k)
      ASSERT_EQ(inbox.payloads[i][k], static_cast<std::uint8_t>(i + k));
  }
  EXPECT_EQ(inbox.source, path.local);
  EXPECT_EQ(network->in_flight(), 0u);
}

TEST_P(Network, TakesTheTimeOfItsCables) {
  HostProperties slow;
  slow.up = {.megabits_per_second = 1'000, .latency = microseconds(10)};
  slow.down = {.megabits_per_second = 2'000, .latency = microseconds(5)};
  start(1, slow);
  ASSERT_TRUE(send(0, 1000));
  run_dry();
  const std::int64_t octets = 14 + (GetParam() ? 40 : 20) + 8 + 12 + 1000 + 4 + 24;
  EXPECT_EQ(now.ns, octets * 8 + 10'000 + octets * 4 + 5'000);
}

TEST_P(Network, GivesNoFrameWhenTheUplinkIsFull) {
  HostProperties small;
  small.up.megabits_per_second = 100;
  small.up.queue_octets = 10'000;
  start(1, small);
  std::uint32_t sent = 0;
  while (sent < 100 && send(sent, 1000)) ++sent;
  EXPECT_GT(sent, 5u);
  EXPECT_LT(sent, 15u);
  EXPECT_GE(network->count(Fate::kNoRoom), 1u);
  now = network->link(0).room_at(now);
  Inbox nothing;
  network->advance(now);
  network->link(0).poll(nothing, now, 1);
  EXPECT_TRUE(send(sent, 1000));
}

TEST_P(Network, DropsAtAFullSwitchAndMarksALongQueue) {
  HostProperties narrow;
  narrow.down.megabits_per_second = 1'000;
  narrow.down.queue_octets = 20'000;
  narrow.down.ecn_octets = 5'000;
  start(1, narrow);
  for (std::uint32_t i = 0; i < 60; ++i) ASSERT_TRUE(send(i, 1000));
  run_dry();
  EXPECT_GT(network->count(Fate::kQueueFull), 20u);
  EXPECT_GT(inbox.marked, 5);
  EXPECT_EQ(inbox.psns.size() + network->count(Fate::kQueueFull), 60u);
}

TEST_P(Network, ReceiveBufferOverflows) {
  HostProperties small;
  small.receive_octets = 5'000;
  start(1, small);
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(send(i, 1000));
  network->advance(now + seconds(1));
  while (network->link(1).poll(inbox, now, 16) != 0) {
  }
  EXPECT_EQ(inbox.psns.size(), 4u);
  EXPECT_EQ(network->count(Fate::kReceiveFull), 16u);
}

TEST_P(Network, FindsEveryFlippedBit) {
  start(3);
  network->set_faults({.corrupt_ppm = 1'000'000});
  for (std::uint32_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(send(i, i % 300));
    run_dry();
  }
  EXPECT_EQ(network->count(Fate::kCorrupted), 3000u);
  EXPECT_EQ(network->corruption_missed(), 0u);
  EXPECT_GT(network->count(Fate::kIcrcRefused), 2000u);
  // The remaining ones were flipped in fields that no RoCE check covers.
  EXPECT_LT(inbox.psns.size(), 400u);
}

TEST_P(Network, EachFaultHappensAsOftenAsAsked) {
  start(4);
  network->set_faults({.drop_ppm = 100'000,
                       .duplicate_ppm = 50'000,
                       .reorder_ppm = 30'000,
                       .ecn_ppm = 20'000,
                       .delay = microseconds(5),
                       .delay_spread = microseconds(5)});
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(send(i, 10));
    now = now + nanoseconds(500);
    network->advance(now);
    while (network->link(1).poll(inbox, now, 16) != 0) {
    }
  }
  run_dry();
  EXPECT_NEAR(static_cast<double>(network->count(Fate::kDropped)), 1050, 120);
  EXPECT_NEAR(static_cast<double>(network->count(Fate::kDuplicated)), 500, 90);
  EXPECT_NEAR(static_cast<double>(network->count(Fate::kReordered)), 285, 60);
  EXPECT_NEAR(static_cast<double>(network->count(Fate::kMarked)), 190, 50);
  std::size_t steps_back = 0;
  for (std::size_t i = 1; i < inbox.psns.size(); ++i) steps_back += inbox.psns[i] < inbox.psns[i - 1];
  EXPECT_GT(steps_back, 100u);
}

TEST_P(Network, PartitionsOneWayAndStops) {
  start(5);
  network->partition(0, 1, Instant{0}, Instant{10'000'000});
  ASSERT_TRUE(send(1, 10));
  run_dry();
  EXPECT_TRUE(inbox.psns.empty());
  now = Instant{10'000'000};
  ASSERT_TRUE(send(2, 10));
  run_dry();
  EXPECT_EQ(inbox.psns, std::vector<std::uint32_t>{2});
  network->partition(0, 1, Instant{0}, kNever);
  network->stop_faults();
  ASSERT_TRUE(send(3, 10));
  run_dry();
  EXPECT_EQ(inbox.psns, (std::vector<std::uint32_t>{2, 3}));
}

TEST_P(Network, FilterLosesACertainPacket) {
  start(6);
  network->set_filter([](const PacketView& packet, Instant) {
    SimPacket parsed;
    EXPECT_EQ(parse_sim_frame(packet.frame, packet.to, parsed), SimVerdict::kGood);
    return parsed.packet.headers.bth.psn.value != 3;
  });
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(send(i, 10));
  run_dry();
  EXPECT_EQ(inbox.psns, (std::vector<std::uint32_t>{0, 1, 2, 4}));
}

TEST_P(Network, OneSeedIsOneRun) {
  const auto run = [&](std::uint64_t seed) {
    start(seed, {.up = {.jitter = microseconds(3)}});
    network->set_faults(
        {.drop_ppm = 50'000, .duplicate_ppm = 50'000, .reorder_ppm = 50'000, .corrupt_ppm = 50'000});
    for (std::uint32_t i = 0; i < 500; ++i) {
      EXPECT_TRUE(send(i, i % 64));
      now = now + nanoseconds(700);
      network->advance(now);
      while (network->link(1).poll(inbox, now, 16) != 0) {
      }
    }
    run_dry();
    return inbox.psns;
  };
  const auto first = run(7);
  EXPECT_EQ(first, run(7));
  EXPECT_NE(first, run(8));
}

INSTANTIATE_TEST_SUITE_P(Families, Network, ::testing::Bool(),
                         [](const auto& suite) { return std::string(suite.param ? "IPv6" : "IPv4"); });

}  // namespace rrdma::link::sim_network_test
