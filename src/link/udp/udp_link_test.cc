// Two UdpLinks over the loopback device of a private network namespace: the receiver of one must see exactly
// the frames that the other committed, whatever the kernel does in between.
#include "link/udp/udp_link.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/guarded_copy.h"
#include "base/prng.h"
#include "link/fault_link.h"
#include "link/test_frames.h"
#include "link/udp/private_network.h"
#include "wire/grh.h"
#include "wire/source_port.h"
#include "wire/udp.h"

namespace rrdma::link::udp_link_test {

using objects::Frame;
using objects::Path;
using test::Arrived;
using test::Collector;
using test::random_octets;
using test::send;
namespace net = private_network;

std::unique_ptr<UdpLink> open_link(int family, std::uint8_t host, UdpConfig config = {},
                                   int receive_buffer = 4 << 20) {
  IpSockets slot;
  (family == AF_INET ? slot.v4 : slot.v6) = net::slot_socket(family, host, receive_buffer);
  auto link = UdpLink::open(std::span(&slot, 1), config);
  EXPECT_TRUE(link.ok());
  return std::move(*link);
}

Path path_between(int family, std::uint8_t from, std::uint8_t to) {
  Path path;
  path.local = net::address_of(family, from);
  path.remote = net::address_of(family, to);
  path.source_port = 0xc123;
  return path;
}

// Polls until `count` packets have arrived or no more come.
void collect(Link& link, Collector& collector, std::size_t count) {
  for (int idle = 0; idle < 2000 && collector.packets.size() < count;) {
    static std::int64_t now_ns = 0;
    now_ns += 10'000;
    if (link.poll(collector, Instant{now_ns}, 64) == 0) {
      ++idle;
      usleep(50);
    } else {
      idle = 0;
    }
  }
}

class UdpLinkTest : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] int family() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Families, UdpLinkTest, testing::Values(AF_INET, AF_INET6),
                         [](const auto& parameter) { return parameter.param == AF_INET ? "Ipv4" : "Ipv6"; });

TEST_P(UdpLinkTest, CarriesPacketsOfEveryLength) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(8192);
  const Path path = path_between(family(), 1, 2);
  std::uint32_t psn = 0;
  for (const std::size_t octets :
       {0u, 1u, 2u, 3u, 4u, 5u, 64u, 255u, 256u, 257u, 1023u, 1024u, 4095u, 4096u}) {
    ASSERT_TRUE(send(*a, path, {.psn = psn, .octets = octets}, memory.data() + psn));
    a->flush({});
    Collector collector;
    collect(*b, collector, 1);
    ASSERT_EQ(collector.packets.size(), 1u) << octets;
    const Arrived& packet = collector.packets[0];
    EXPECT_EQ(packet.headers.bth.psn, wire::Psn(psn));
    EXPECT_EQ(packet.payload,
              std::vector(memory.begin() + psn, memory.begin() + psn + static_cast<std::ptrdiff_t>(octets)));
    EXPECT_EQ(packet.origin.source, path.local);
    EXPECT_EQ(packet.origin.destination, path.remote);
    EXPECT_EQ(packet.origin.source_port, a->source_port(path));
    EXPECT_GE(packet.origin.source_port, wire::kSourcePortMin);
    ++psn;
  }
  EXPECT_EQ(b->tally().refused_icrc, 0u);
  EXPECT_EQ(b->tally().icrc_solved, 0u) << "a lone packet is expected with identification 0";
}

// Nothing receives at the third address. The kernel's report about it must not cost a packet to the second.
// IPv4 only: without a socket, IPv6 drops packets with checksum 0 and says nothing.
TEST(UdpLinkReports, TellsWhatTheNetworkAnswered) {
  auto a = open_link(AF_INET, 1);
  auto b = open_link(AF_INET, 2);
  const auto memory = random_octets(64);
  const Path closed = path_between(AF_INET, 1, 3);
  const Path open = path_between(AF_INET, 1, 2);
  Instant now{1'000'000'000};
  EXPECT_FALSE(a->report_about(closed.remote, now));
  ASSERT_TRUE(send(*a, closed, {.psn = 1, .octets = 8}, memory.data()));
  a->flush(now);
  usleep(1000);
  constexpr std::uint32_t kPackets = 8;
  for (std::uint32_t psn = 2; psn < 2 + kPackets; ++psn) {
    ASSERT_TRUE(send(*a, open, {.psn = psn, .octets = 8}, memory.data()));
    a->flush(now);
  }
  Collector collector;
  collect(*b, collector, kPackets);
  EXPECT_EQ(collector.packets.size(), kPackets);
  const auto report = a->report_about(closed.remote, now);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->kind, NetworkReport::Kind::kPortClosed);
  EXPECT_EQ(report->reporter, closed.remote);
  EXPECT_FALSE(a->report_about(open.remote, now));
  now = now + NetworkReports::kValid + seconds(1);
  EXPECT_FALSE(a->report_about(closed.remote, now)) << "an old report says nothing about now";
}

// A poll skips cold sockets for a moment; a thread that sleeps until the next arrival must not.
TEST_P(UdpLinkTest, LooksAtEverySocketWhenAsked) {
  const int other = family() == AF_INET ? AF_INET6 : AF_INET;
  IpSockets slot{.v4 = net::slot_socket(AF_INET, 2, 1 << 20), .v6 = net::slot_socket(AF_INET6, 2, 1 << 20)};
  auto opened = UdpLink::open(std::span(&slot, 1), {});
  ASSERT_TRUE(opened.ok());
  UdpLink& b = **opened;
  auto warm = open_link(family(), 1);
  auto cold = open_link(other, 1);
  const auto memory = random_octets(64);
  Collector collector;
  const auto send_one = [&](Link& from, int over, std::uint32_t psn) {
    const Path path = path_between(over, 1, 2);  // must live until the frame is sent
    ASSERT_TRUE(send(from, path, {.psn = psn, .octets = 8}, memory.data()));
    from.flush({});
  };
  send_one(*warm, family(), 1);
  const Instant now{1'000'000'000};
  for (int i = 0; i < 1000 && collector.packets.empty(); ++i) b.poll(collector, now, 64);
  ASSERT_EQ(collector.packets.size(), 1u);
  send_one(*cold, other, 2);
  usleep(1000);
  b.poll(collector, now + microseconds(1), 64);
  EXPECT_EQ(collector.packets.size(), 1u) << "looked at a moment ago";
  b.look_next(Look::kEverywhere);
  b.poll(collector, now + microseconds(2), 64);
  EXPECT_EQ(collector.packets.size(), 2u);
}

TEST_P(UdpLinkTest, LooksOnlyWhereSomethingMayBePending) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(64);
  Collector collector;
  const auto poll_pending = [&] {
    b->look_next(Look::kPending);
    return b->poll(collector, {}, 64);
  };
  const auto send_one = [&](std::uint32_t psn) {
    const Path path = path_between(family(), 1, 2);
    ASSERT_TRUE(send(*a, path, {.psn = psn, .octets = 8}, memory.data()));
    a->flush({});
    usleep(1000);
  };
  send_one(1);
  EXPECT_EQ(poll_pending(), 1u) << "nobody has looked yet";
  EXPECT_EQ(poll_pending(), 0u) << "to its end";
  send_one(2);
  send_one(3);
  EXPECT_EQ(poll_pending(), 0u) << "the end was seen, and no arrival noted";
  for (const int descriptor : b->descriptors()) b->note_arrival(descriptor);
  EXPECT_EQ(poll_pending(), 1u);
  EXPECT_EQ(poll_pending(), 1u) << "there was no end yet";
}

// The FIRST of a WRITE is longer than the others by its RETH.
TEST_P(UdpLinkTest, NeighboursOfOneLengthGoAsATrain) {
  const auto memory = random_octets(64 * 1024);
  const Path path = path_between(family(), 1, 2);
  const std::size_t mtu = 4096;
  for (const std::size_t last : {std::size_t{1001}, mtu}) {
    auto a = open_link(family(), 1);
    auto b = open_link(family(), 2);
    for (std::uint32_t i = 0; i < 16; ++i) {
      const wire::Step step = i == 0    ? wire::Step::kWriteFirst
                              : i == 15 ? wire::Step::kWriteLast
                                        : wire::Step::kWriteMiddle;
      ASSERT_TRUE(send(*a, path, {step, i, i == 15 ? last : mtu}, memory.data() + i * mtu));
    }
    a->flush({});
    Collector collector;
    collect(*b, collector, 16);
    ASSERT_EQ(collector.packets.size(), 16u);
    for (std::uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(collector.packets[i].headers.bth.psn, wire::Psn(i));
      EXPECT_EQ(0, std::memcmp(collector.packets[i].payload.data(), memory.data() + i * mtu,
                               collector.packets[i].payload.size()));
    }
    EXPECT_EQ(a->tally().sends, 2u) << "the FIRST alone, all others in a train";
    EXPECT_EQ(a->tally().trains_sent, 1u);
    EXPECT_EQ(a->tally().packets_sent, 16u);
    EXPECT_GE(b->tally().trains_received, 1u);
  }
}

TEST_P(UdpLinkTest, AWriteOfTwoPacketsIsATrain) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(4096);
  const Path path = path_between(family(), 1, 2);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(send(*a, path, {i % 2 == 0 ? wire::Step::kWriteFirst : wire::Step::kWriteLast, i, 1024},
                     memory.data() + i * 1024));
  }
  a->flush({});
  Collector collector;
  collect(*b, collector, 4);
  EXPECT_EQ(collector.packets.size(), 4u);
  EXPECT_EQ(a->tally().sends, 2u);
  EXPECT_EQ(a->tally().trains_sent, 2u);
}

TEST_P(UdpLinkTest, AnAcknowledgementRidesBehindTheRequestsOfItsQueuePair) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(64);
  const Path path = path_between(family(), 1, 2);
  const Path other = path_between(family(), 1, 2);  // of another QP
  ASSERT_TRUE(send(*a, path, {wire::Step::kAcknowledge, 1, 0}, memory.data()));
  ASSERT_TRUE(send(*a, path, {wire::Step::kSendOnly, 2, 8}, memory.data()));
  ASSERT_TRUE(send(*a, path, {wire::Step::kSendOnly, 3, 8}, memory.data()));
  ASSERT_TRUE(send(*a, other, {wire::Step::kAcknowledge, 4, 0}, memory.data()));
  ASSERT_TRUE(send(*a, path, {wire::Step::kSendOnly, 5, 8}, memory.data()));
  ASSERT_TRUE(send(*a, path, {wire::Step::kAcknowledge, 6, 0}, memory.data()));
  ASSERT_TRUE(send(*a, path, {wire::Step::kReadResponseOnly, 7, 8}, memory.data()));
  a->flush({});
  Collector collector;
  collect(*b, collector, 7);
  std::vector<std::uint32_t> order;
  for (const Arrived& packet : collector.packets) order.push_back(packet.headers.bth.psn.value);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 3, 1, 4, 5, 6, 7}))
      << "answers keep their order, others theirs";
  EXPECT_GE(a->tally().trains_sent, 1u);
}

TEST_P(UdpLinkTest, SmallPacketsShareATrainToo) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(64 * 8);
  const Path path = path_between(family(), 1, 2);
  for (std::uint32_t i = 0; i < 64; ++i)
    ASSERT_TRUE(send(*a, path, {wire::Step::kWriteOnly, i, 8}, memory.data() + i * 8));
  a->flush({});
  Collector collector;
  collect(*b, collector, 64);
  ASSERT_EQ(collector.packets.size(), 64u);
  for (std::uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(0, std::memcmp(collector.packets[i].payload.data(), memory.data() + i * 8, 8));
  EXPECT_EQ(a->tally().send_calls, 1u);
}

TEST_P(UdpLinkTest, ChecksumZeroMeansNoTrains) {
  UdpConfig config;
  config.checksum = UdpChecksum::kZero;
  auto a = open_link(family(), 1, config);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(8192);
  const Path path = path_between(family(), 1, 2);
  for (std::uint32_t i = 0; i < 8; ++i)
    ASSERT_TRUE(send(*a, path, {.psn = i, .octets = 1024}, memory.data() + i * 1024));
  a->flush({});
  Collector collector;
  collect(*b, collector, 8);
  EXPECT_EQ(collector.packets.size(), 8u);
  EXPECT_EQ(a->tally().trains_sent, 0u);
  EXPECT_EQ(a->tally().sends, 8u);
  EXPECT_EQ(a->tally().send_calls, 1u);
}

TEST_P(UdpLinkTest, AFlippedBitIsRefusedAndCounted) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(4096);
  const Path path = path_between(family(), 1, 2);
  Collector collector;
  ASSERT_TRUE(send(*a, path, {.psn = 0, .octets = 100}, memory.data()));
  a->flush({});
  collect(*b, collector, 1);
  ASSERT_EQ(collector.packets.size(), 1u);
  std::uint32_t sent = 0;
  for (std::int32_t bit = 0; bit < (12 + 100 + 4) * 8; ++bit) {
    if (bit / 8 == 4) continue;  // FECN, BECN and the rest of that byte are outside the ICRC
    ASSERT_TRUE(send(*a, path, {.psn = 1, .octets = 100, .corrupt_bit = bit}, memory.data()));
    a->flush({});
    ++sent;
    b->poll(collector, {}, 64);
  }
  collect(*b, collector, 2);
  EXPECT_EQ(collector.packets.size(), 1u);
  EXPECT_EQ(b->tally().refused_icrc + b->tally().refused_identification, sent);
}

TEST_P(UdpLinkTest, CorruptionTouchesOnePacketOfABurst) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(16 * 1024);
  const Path path = path_between(family(), 1, 2);
  for (std::uint32_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(send(*a, path, {.psn = i, .octets = 1024, .corrupt_bit = i == 5 ? 999 : -1},
                     memory.data() + i * 1024));
  }
  a->flush({});
  Collector collector;
  collect(*b, collector, 16);
  ASSERT_EQ(collector.packets.size(), 15u);
  for (std::uint32_t i = 0; i < 15; ++i)
    EXPECT_EQ(collector.packets[i].headers.bth.psn, wire::Psn(i < 5 ? i : i + 1));
}

TEST_P(UdpLinkTest, FaultsOnPurposeReachTheOtherEnd) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  FaultLink faulty(*a, *parse_fault_spec("drop=5%,dup=5%,reorder=5%,corrupt=5%,seed=11"));
  const auto memory = random_octets(4096);
  const Path path = path_between(family(), 1, 2);
  Collector collector;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(send(faulty, path, {.psn = i, .octets = 200}, memory.data()));
    if (i % 10 != 9) continue;
    faulty.flush(Instant{i * 1'000});
    b->poll(collector, Instant{i * 10'000}, 64);
  }
  faulty.flush({1'000'000'000});
  faulty.flush({2'000'000'000});
  const FaultCounters& faults = faulty.tally();
  const std::size_t sent = 2000 - faults.dropped + faults.duplicated;
  collect(*b, collector, sent);
  const std::size_t refused = b->tally().refused_icrc + b->tally().refused_identification;
  EXPECT_EQ(collector.packets.size() + refused, sent);
  // A flipped bit outside the ICRC does no harm; a corrupted packet may be duplicated.
  EXPECT_NEAR(static_cast<double>(refused), static_cast<double>(faults.corrupted), 15);
  for (const Arrived& packet : collector.packets)
    EXPECT_EQ(0, std::memcmp(packet.payload.data(), memory.data(), 200));
}

TEST_P(UdpLinkTest, DatagramsBringTheirGrh) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(64);
  Path path = path_between(family(), 1, 2);
  path.traffic_class = 0x2b;  // with congestion experienced
  Frame* frame = a->reserve(path);
  ASSERT_NE(frame, nullptr);
  wire::TransportHeaders headers;
  headers.bth.opcode = wire::Opcode(wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly);
  headers.bth.destination = wire::Qpn(0x010042);
  frame->header_octets =
      static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
  frame->add_span(memory.data(), 64);
  a->commit(*frame);
  a->flush({});
  Collector collector;
  collect(*b, collector, 1);
  ASSERT_EQ(collector.packets.size(), 1u);
  const Arrived& packet = collector.packets[0];
  EXPECT_TRUE(packet.origin.ecn_marked);
  EXPECT_EQ(packet.origin.traffic_class, 0x2b);
  ASSERT_EQ(packet.grh.size(), 40u);
  if (family() == AF_INET) {
    EXPECT_EQ(packet.grh[20], 0x45);
    EXPECT_EQ(load_be16(&packet.grh[22]), 20 + 8 + 12 + 8 + 64 + 4);
    EXPECT_EQ(0, std::memcmp(&packet.grh[32], path.local.octets.data() + 12, 4));
    EXPECT_EQ(0, std::memcmp(&packet.grh[36], path.remote.octets.data() + 12, 4));
    EXPECT_EQ(std::accumulate(packet.grh.begin(), packet.grh.begin() + 20, 0), 0);
  } else {
    EXPECT_EQ(packet.grh[0] >> 4, 6);
    EXPECT_EQ(0, std::memcmp(&packet.grh[8], path.local.octets.data(), 16));
    EXPECT_EQ(0, std::memcmp(&packet.grh[24], path.remote.octets.data(), 16));
  }
}

TEST_P(UdpLinkTest, ManyRoutesInOneBurst) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(4096);
  std::vector<Path> paths;
  for (std::uint32_t i = 0; i < 64; ++i) {
    Path path = path_between(family(), 1, 2);
    path.source_port = static_cast<std::uint16_t>(0xc000 + i * 777);
    path.traffic_class = static_cast<std::uint8_t>(i * 4);
    paths.push_back(path);
  }
  for (std::uint32_t round = 0; round < 4; ++round) {
    for (std::uint32_t i = 0; i < 64; ++i)
      ASSERT_TRUE(send(*a, paths[i], {.psn = i, .octets = 32}, memory.data()));
    a->flush({});
    Collector collector;
    collect(*b, collector, 64);
    ASSERT_EQ(collector.packets.size(), 64u);
    // Different source ports use different sockets, which preserve no order among them.
    std::uint64_t seen = 0;
    for (const Arrived& packet : collector.packets) {
      const std::uint32_t i = packet.headers.bth.psn.value;
      seen |= std::uint64_t{1} << i;
      EXPECT_EQ(packet.origin.traffic_class, paths[i].traffic_class);
      EXPECT_EQ(packet.origin.source_port, a->source_port(paths[i]));
    }
    EXPECT_EQ(seen, ~std::uint64_t{0});
  }
}

TEST_P(UdpLinkTest, ABoundPortIsKept) {
  auto a = open_link(family(), 1);
  Path path = path_between(family(), 1, 2);
  for (std::uint32_t wanted = 0xc000; wanted < 0x10000; wanted += 97) {
    path.source_port = static_cast<std::uint16_t>(wanted);
    const std::uint16_t bound = a->source_port(path);
    path.source_port = bound;
    EXPECT_EQ(a->source_port(path), bound);
  }
}

TEST_P(UdpLinkTest, MoreThanABurstGoesOutByItself) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(4096);
  const Path path = path_between(family(), 1, 2);
  for (std::uint32_t i = 0; i < 1000; ++i)
    ASSERT_TRUE(send(*a, path, {.psn = i, .octets = 512}, memory.data()));
  a->flush({});
  Collector collector;
  collect(*b, collector, 1000);
  ASSERT_EQ(collector.packets.size(), 1000u);
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(collector.packets[i].headers.bth.psn, wire::Psn(i));
}

TEST_P(UdpLinkTest, ThePeerOfTheOtherFamilyIsNoCrash) {
  auto a = open_link(family(), 1);
  const auto memory = random_octets(64);
  const int other = family() == AF_INET ? AF_INET6 : AF_INET;
  const Path path = path_between(other, 1, 2);
  ASSERT_TRUE(send(*a, path, {.octets = 64}, memory.data()));
  a->flush({});
  EXPECT_EQ(a->tally().dropped_no_socket, 1u);
  EXPECT_EQ(a->tally().packets_sent, 0u);
}

TEST_P(UdpLinkTest, WhatCannotBeSentIsCountedByReason) {
  auto a = open_link(family(), 1);
  const auto memory = random_octets(64);
  Path path = path_between(family(), 1, 2);
  path.remote = family() == AF_INET ? wire::gid_of_ipv4({192, 0, 2, 1}) : net::address_of(AF_INET6, 77);
  ASSERT_TRUE(send(*a, path, {.octets = 64}, memory.data()));
  a->flush({});
  EXPECT_EQ(a->tally().dropped_unreachable + a->tally().dropped_no_source, 1u);
  EXPECT_NE(a->last_error(), 0);
  path = path_between(family(), 1, 2);
  path.local = net::address_of(family(), 1);
  path.local.octets[family() == AF_INET ? 12 : 1] = 10;  // not an address of this host
  ASSERT_TRUE(send(*a, path, {.octets = 64}, memory.data()));
  a->flush({});
  EXPECT_EQ(a->tally().packets_sent, 0u);
}

TEST_P(UdpLinkTest, JunkIsRefusedAndCounted) {
  auto b = open_link(family(), 2);
  const OwnedFd stranger(raw::socket(family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const wire::Gid to = net::address_of(family(), 2);
  union {
    sockaddr_in v4;
    sockaddr_in6 v6;
  } address{};
  if (family() == AF_INET) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(wire::kRoceUdpPort);
    std::memcpy(&address.v4.sin_addr, to.octets.data() + 12, 4);
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(wire::kRoceUdpPort);
    std::memcpy(&address.v6.sin6_addr, to.octets.data(), 16);
  }
  Prng prng(7);
  Collector collector;
  const std::size_t count = 20'000;
  for (std::size_t i = 0; i < count; ++i) {
    const auto junk = random_octets(prng.below(200), prng.next());
    ASSERT_GE(
        raw::sendto(stranger.get(), junk.data(), junk.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                    family() == AF_INET ? sizeof address.v4 : sizeof address.v6),
        0);
    b->poll(collector, Instant{static_cast<std::int64_t>(i) * 10'000}, 64);
  }
  collect(*b, collector, 100);
  const UdpCounters& tally = b->tally();
  // On IPv4, 16 bits of check let about one in 65536 through to the parser; on IPv6, none.
  EXPECT_LE(collector.packets.size() + tally.refused_opcode + tally.refused_pad + tally.refused_version +
                tally.refused_payload_length,
            5u);
  EXPECT_GE(tally.refused_icrc + tally.refused_short + tally.refused_identification, count - 5);
}

TEST_P(UdpLinkTest, SmallReceiveBuffersLoseButNeverStall) {
  // 208 KiB: what an unprivileged user gets on most machines.
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2, {}, 212'992);
  EXPECT_GE(b->receive_room(4096), 100'000u);
  EXPECT_LE(b->receive_room(4096), 425'984u);
  const auto memory = random_octets(64 * 1024);
  const Path path = path_between(family(), 1, 2);
  Collector collector;
  const std::size_t window = b->receive_room(4096 + 16) / (4096 + 16);
  ASSERT_GE(window, 16u);
  // A window that fits loses nothing.
  std::uint32_t psn = 0;
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < window; ++i, ++psn)
      ASSERT_TRUE(send(*a, path, {.psn = psn, .octets = 4096}, memory.data()));
    a->flush({});
    collect(*b, collector, psn);
    ASSERT_EQ(collector.packets.size(), psn);
  }
  // A larger window loses packets, and the link continues.
  for (std::size_t i = 0; i < 1000; ++i)
    ASSERT_TRUE(send(*a, path, {.psn = psn, .octets = 4096}, memory.data()));
  a->flush({});
  collector.packets.clear();
  collect(*b, collector, 1000);
  EXPECT_LT(collector.packets.size(), 1000u);
  collector.packets.clear();
  ASSERT_TRUE(send(*a, path, {.psn = 1, .octets = 4096}, memory.data()));
  a->flush({});
  collect(*b, collector, 1);
  EXPECT_EQ(collector.packets.size(), 1u);
}

void recover(int, siginfo_t*, void* context) {
  if (!recover_from_fault(context)) ::_exit(99);
}

TEST_P(UdpLinkTest, UnmappedMemoryDropsItsFrameOnly) {
  struct sigaction action {};
  action.sa_sigaction = recover;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  struct sigaction before {};
  sigaction(SIGSEGV, &action, &before);
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(64 * 1024);
  void* gone = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, 8192);
  const Path path = path_between(family(), 1, 2);
  for (const std::size_t octets : {64u, 2048u}) {  // copied, and gathered
    for (std::uint32_t i = 0; i < 16; ++i) {
      const bool bad = i == 0 || i == 7 || i == 15;
      ASSERT_TRUE(send(*a, path, {.psn = i, .octets = octets},
                       bad ? static_cast<std::uint8_t*>(gone) : memory.data()));
    }
    a->flush({});
    Collector collector;
    collect(*b, collector, 13);
    ASSERT_EQ(collector.packets.size(), 13u) << octets;
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < 16; ++i) {
      if (i == 0 || i == 7 || i == 15) continue;
      EXPECT_EQ(collector.packets[next++].headers.bth.psn, wire::Psn(i));
    }
  }
  EXPECT_EQ(a->tally().dropped_unreadable, 6u);
  EXPECT_EQ(b->tally().refused_icrc, 0u);
  sigaction(SIGSEGV, &before, nullptr);
}

TEST_P(UdpLinkTest, NoRoomInTheSocketKeepsFramesInOrder) {
  // A slow queue on the device keeps packets charged to a small send buffer.
  if (std::system("tc qdisc add dev lo root tbf rate 800mbit burst 128k limit 20m 2>/dev/null") != 0) {
    GTEST_SKIP() << "this kernel has no token bucket queue";
  }
  UdpConfig config;
  config.send_buffer_octets = 100'000;
  auto a = open_link(family(), 1, config);
  auto b = open_link(family(), 2);
  const auto memory = random_octets(4096);
  const Path path = path_between(family(), 1, 2);
  Collector collector;
  std::uint32_t psn = 0;
  std::uint32_t refusals = 0;
  for (std::int64_t now = 0; psn < 2000 && now < 400'000; ++now) {
    if (send(*a, path, {.psn = psn, .octets = 3000}, memory.data())) {
      ++psn;
      continue;
    }
    ++refusals;
    EXPECT_NE(a->next_deadline(), kNever);
    a->flush(Instant{now * 50'000});
    b->poll(collector, Instant{now * 50'000}, 64);
    usleep(50);
  }
  EXPECT_EQ(psn, 2000u);
  for (int i = 0; i < 2000 && (a->next_deadline() != kNever || i < 2); ++i, usleep(100)) a->flush({});
  collect(*b, collector, 2000);
  EXPECT_EQ(std::system("tc qdisc del dev lo root"), 0);
  EXPECT_GT(refusals, 0u);
  EXPECT_GT(a->tally().waited_for_room, 0u);
  EXPECT_EQ(a->tally().packets_sent, 2000u);
  ASSERT_EQ(collector.packets.size(), 2000u);
  for (std::uint32_t i = 0; i < 2000; ++i) ASSERT_EQ(collector.packets[i].headers.bth.psn, wire::Psn(i));
}

// Writes to shared memory continuously, from another process, until it is destroyed.
class Scribbler {
 public:
  explicit Scribbler(std::size_t octets) : octets_(octets) {
    memory_ = static_cast<std::uint8_t*>(
        mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    child_ = fork();
    for (std::uint8_t value = 0; child_ == 0; ++value) {
      for (std::size_t i = 0; i < octets_; i += 64) static_cast<volatile std::uint8_t*>(memory_)[i] = value;
      if (getppid() == 1) _exit(0);
    }
  }
  ~Scribbler() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(memory_, octets_);
  }
  [[nodiscard]] const std::uint8_t* memory() const { return memory_; }

 private:
  const std::size_t octets_;
  std::uint8_t* memory_ = nullptr;
  pid_t child_ = -1;
};

// A program writes while a peer reads: every packet is a consistent snapshot, so no ICRC is wrong.
TEST_P(UdpLinkTest, AReadResponseIsWhatItsIcrcSays) {
  auto a = open_link(family(), 1);
  auto b = open_link(family(), 2);
  const Path path = path_between(family(), 1, 2);
  const Scribbler scribbler(14 * 4096);
  Collector collector;
  for (std::uint32_t round = 0; round < 500; ++round) {
    for (std::uint32_t i = 0; i < 14; ++i) {
      ASSERT_TRUE(send(*a, path, {wire::Step::kReadResponseMiddle, i, 4096}, scribbler.memory() + i * 4096));
    }
    a->flush({});
    collector.packets.clear();
    collect(*b, collector, 14);
    ASSERT_EQ(collector.packets.size(), 14u);
  }
  EXPECT_EQ(b->tally().refused_icrc, 0u);
}

}  // namespace rrdma::link::udp_link_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!rrdma::link::private_network::enter()) {
    std::perror("skipped: no network namespace of one's own");
    return 0;
  }
  return RUN_ALL_TESTS();
}
