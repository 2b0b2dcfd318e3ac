#include "transport/recovery/reorder_buffer.h"

#include <gtest/gtest.h>

#include <vector>

namespace rrdma::transport::reorder_buffer_test {

using Verdict = ReorderBuffer::Verdict;

class ReorderBufferTest : public testing::Test {
 protected:
  ReorderBufferTest() { buffer_.enable(store_); }
  ~ReorderBufferTest() override { buffer_.disable(); }

  Verdict keep(std::uint32_t psn, std::uint32_t expected, std::uint32_t psns = 1, std::size_t octets = 8,
               bool placed = false) {
    const std::vector<std::uint8_t> payload(octets, static_cast<std::uint8_t>(psn));
    wire::TransportPacket packet{};
    packet.headers.bth.psn = wire::Psn(psn);
    packet.payload = payload;
    return buffer_.keep(packet, wire::Psn(expected), psns, placed);
  }
  std::vector<std::uint32_t> told(std::uint32_t expected) {
    std::vector<std::uint32_t> distances;
    const Octets bits = buffer_.bitmap(wire::Psn(expected));
    EXPECT_EQ(bits.size() % 4, 0u);  // packet lengths are multiples of four bytes
    for (std::uint32_t i = 0; i < bits.size() * 8; ++i) {
      if ((bits[i / 8] >> (7 - i % 8) & 1) != 0) distances.push_back(i);
    }
    return distances;
  }

  EarlyPackets store_;
  ReorderBuffer buffer_;
};

TEST_F(ReorderBufferTest, KeepsWhatIsEarlyAndTellsOfIt) {
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(keep(102, 100), Verdict::kKeptBeyondGap);
  EXPECT_EQ(keep(103, 100), Verdict::kKept);
  EXPECT_EQ(keep(109, 100), Verdict::kKeptBeyondGap);
  EXPECT_EQ(keep(103, 100), Verdict::kHadIt);
  EXPECT_EQ(told(100), (std::vector<std::uint32_t>{2, 3, 9}));
  ReorderBuffer::Found found;
  EXPECT_FALSE(buffer_.find(wire::Psn(101), found));
  ASSERT_TRUE(buffer_.find(wire::Psn(103), found));
  EXPECT_EQ(found.packet.headers.bth.psn, wire::Psn(103));
  EXPECT_EQ(found.packet.payload.size(), 8u);
  EXPECT_EQ(found.packet.payload[0], 103);
  EXPECT_FALSE(found.placed);
}

// The payload of a placed packet is elsewhere, but the packet still counts as held, with its length.
TEST_F(ReorderBufferTest, KnowsWhatIsPlacedAlready) {
  EXPECT_EQ(keep(102, 100, 1, 8, true), Verdict::kKeptBeyondGap);
  EXPECT_EQ(keep(104, 100), Verdict::kKeptBeyondGap);
  EXPECT_EQ(told(100), (std::vector<std::uint32_t>{2, 4}));
  ReorderBuffer::Found found;
  ASSERT_TRUE(buffer_.find(wire::Psn(102), found));
  EXPECT_TRUE(found.placed);
  EXPECT_EQ(found.packet.payload.size(), 8u);
  ASSERT_TRUE(buffer_.find(wire::Psn(104), found));
  EXPECT_FALSE(found.placed);
}

// A message is in progress at 100. A MIDDLE packet with a single missing packet before it belongs to the same
// message.
TEST_F(ReorderBufferTest, KnowsWhatIsOfTheMessageInProgress) {
  const auto keep_step = [&](std::uint32_t psn, wire::Step step) {
    wire::TransportPacket packet{};
    packet.headers.bth.psn = wire::Psn(psn);
    packet.headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, step);
    static_cast<void>(buffer_.keep(packet, wire::Psn(100), 1));
  };
  EXPECT_FALSE(buffer_.in_same_message(wire::Psn(102), wire::Psn(100)));
  EXPECT_TRUE(buffer_.in_same_message(wire::Psn(101), wire::Psn(100)));
  keep_step(101, wire::Step::kSendMiddle);
  EXPECT_TRUE(buffer_.in_same_message(wire::Psn(103), wire::Psn(100)));
  keep_step(103, wire::Step::kSendMiddle);
  EXPECT_FALSE(buffer_.in_same_message(wire::Psn(106), wire::Psn(100)));  // 104 and 105 are missing
  keep_step(106, wire::Step::kSendMiddle);
  EXPECT_TRUE(buffer_.in_same_message(wire::Psn(105), wire::Psn(100)));
  keep_step(105, wire::Step::kSendMiddle);
  EXPECT_TRUE(buffer_.in_same_message(wire::Psn(107), wire::Psn(100)));  // 106 is held
  keep_step(107, wire::Step::kSendMiddle);
  keep_step(108, wire::Step::kSendLast);
  EXPECT_FALSE(buffer_.in_same_message(wire::Psn(110), wire::Psn(100)));
}

TEST_F(ReorderBufferTest, ForgetsAMessageHalfACircleAgo) {
  EXPECT_EQ(keep(101, 100), Verdict::kKeptBeyondGap);
  buffer_.clear();
  const wire::Psn later(0x800100);
  EXPECT_FALSE(buffer_.in_same_message(later + 5, later));
  EXPECT_TRUE(buffer_.in_same_message(later + 1, later));
}

// More gaps in sequence than the store has tables.
TEST_F(ReorderBufferTest, PlacesGoBackWithTheLastPacket) {
  for (std::uint32_t gap = 0; gap < EarlyPackets::kSlots + 1u; ++gap) {
    ASSERT_EQ(keep(gap + 1, gap), Verdict::kKeptBeyondGap);
    if (gap % 2 == 0)
      buffer_.release_until(wire::Psn(gap), wire::Psn(gap + 2));
    else
      buffer_.clear();
    EXPECT_TRUE(buffer_.empty());
    EXPECT_TRUE(told(gap).empty());
  }
  EXPECT_EQ(store_.room(), std::size_t{EarlyPackets::kSlots});
}

TEST_F(ReorderBufferTest, NumbersWrap) {
  EXPECT_EQ(keep(1, 0xfffffe), Verdict::kKeptBeyondGap);
  EXPECT_EQ(told(0xfffffe), (std::vector<std::uint32_t>{3}));
  buffer_.release_until(wire::Psn(0xfffffe), wire::Psn(2));
  EXPECT_TRUE(buffer_.empty());
}

TEST_F(ReorderBufferTest, AReadTakesItsNumbersAndIsKeptOnce) {
  EXPECT_EQ(keep(105, 100, 4), Verdict::kKeptBeyondGap);
  EXPECT_EQ(told(100), (std::vector<std::uint32_t>{5, 6, 7, 8}));
  ReorderBuffer::Found found;
  EXPECT_TRUE(buffer_.find(wire::Psn(105), found));
  EXPECT_FALSE(buffer_.find(wire::Psn(106), found));
  EXPECT_EQ(keep(107, 100), Verdict::kHadIt);  // a later PSN of the same READ
  EXPECT_EQ(store_.room(), EarlyPackets::kSlots - 1u);
  buffer_.release_until(wire::Psn(100), wire::Psn(109));
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(store_.room(), std::size_t{EarlyPackets::kSlots});
}

TEST_F(ReorderBufferTest, IsBounded) {
  EXPECT_EQ(keep(100 + ReorderBuffer::kPsns, 100), Verdict::kNoRoom);
  EXPECT_EQ(keep(99 + ReorderBuffer::kPsns, 100, 2), Verdict::kNoRoom);
  EXPECT_EQ(keep(101, 100, 1, EarlyPackets::kOctetsMax + 1), Verdict::kNoRoom);
  constexpr std::uint32_t kMost = EarlyPackets::kSlots - EarlyPackets::kReserve;
  for (std::uint32_t i = 0; i < kMost; ++i) EXPECT_NE(keep(102 + i, 100), Verdict::kNoRoom);
  EXPECT_EQ(keep(102 + kMost, 100), Verdict::kNoRoom);
  EXPECT_EQ(store_.room(), std::size_t{EarlyPackets::kReserve});
  buffer_.clear();
  EXPECT_EQ(store_.room(), std::size_t{EarlyPackets::kSlots});
}

// The store belongs to the engine: another QP cannot use an occupied slot.
TEST_F(ReorderBufferTest, SharesTheStoreWithOthers) {
  ReorderBuffer other;
  other.enable(store_);
  EXPECT_EQ(keep(102, 100), Verdict::kKeptBeyondGap);
  EXPECT_TRUE(other.empty());
  other.disable();
  ReorderBuffer::Found found;
  EXPECT_TRUE(buffer_.find(wire::Psn(102), found));
}

// Peers that send nothing but early packets, on many QPs, leave room for one that lost a packet.
TEST_F(ReorderBufferTest, GreedyQpsLeaveRoomForOthers) {
  std::vector<ReorderBuffer> greedy(24);
  wire::TransportPacket packet{};
  for (ReorderBuffer& one : greedy) {
    one.enable(store_);
    for (std::uint32_t psn = 1; psn < ReorderBuffer::kPsns; ++psn) {
      packet.headers.bth.psn = wire::Psn(psn);
      (void)one.keep(packet, wire::Psn(0), 1);
    }
  }
  EXPECT_EQ(keep(102, 100), Verdict::kKeptBeyondGap);
  EXPECT_EQ(keep(103, 100), Verdict::kKept);
  for (ReorderBuffer& one : greedy) one.disable();
  buffer_.clear();
  EXPECT_EQ(store_.room(), std::size_t{EarlyPackets::kSlots});
}

}  // namespace rrdma::transport::reorder_buffer_test
