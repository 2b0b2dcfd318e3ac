// Staging, on memory whose addresses no CPU can touch.
#include "objects/staging.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/prng.h"
#include "objects/test_far_memory.h"

namespace rrdma::objects {
namespace {

constexpr std::size_t kFarOctets = 8 << 20;
constexpr Inflow kInflow{wire::Qpn(1)};

class StagingTest : public testing::Test {
 protected:
  void SetUp() override {
    Prng prng(7);
    for (auto& octet : far_.octets) octet = static_cast<std::uint8_t>(prng.next());
    kind_ = table_.add_kind(far_);
    region_ = *table_.register_region({.pd = &pd_,
                                       .host = FarMemory::address(0),
                                       .length = kFarOctets,
                                       .address = FarMemory::kBase,
                                       .access = kLocalWrite,
                                       .kind = kind_});
    table_.add_listener(staging_);
  }
  // Reads a message in packets, as a requester does, and compares.
  void read_message(std::uint64_t number, std::size_t from, std::size_t length, std::size_t packet) {
    for (std::size_t at = 0; at < length; at += packet) {
      const std::size_t part = std::min(packet, length - at);
      const std::uint8_t* octets =
          staging_.fetch(kind_, {wire::Qpn(1), number}, FarMemory::address(from + at), part, length - at);
      if (octets == nullptr && staging_.take_starved()) {
        staging_.flushed();
        at -= packet;
        continue;
      }
      ASSERT_NE(octets, nullptr);
      ASSERT_EQ(std::memcmp(octets, far_.octets.data() + from + at, part), 0) << at;
    }
  }
  Sge element(std::size_t offset, std::uint32_t length) const {
    return {FarMemory::kBase + offset, length, {region_->key}};
  }

  FarMemory far_{kFarOctets};
  MemoryTable table_{1};
  ProtectionDomain pd_;
  std::uint8_t kind_ = 0;
  MemoryRegion* region_ = nullptr;
  Staging staging_{table_};
};

TEST_F(StagingTest, ReadsOnceForAMessageNotForAPacket) {
  read_message(1, 3, 100'000, 4096);
  EXPECT_EQ(far_.reads, 1u);
  read_message(2, 0, 4 << 20, 4096);
  EXPECT_LE(far_.reads, 1u + (4 << 20) / Staging::kSliceOctets + 1);
}

TEST_F(StagingTest, AnotherMessageReadsAgain) {
  read_message(1, 0, 4096, 1024);
  far_.octets[100] ^= 1;
  read_message(2, 0, 4096, 1024);
  staging_.flushed();
  far_.octets[100] ^= 1;
  read_message(2, 0, 4096, 1024);  // a repetition after the end
}

// As after a reset of the device.
TEST_F(StagingTest, ABrokenLineIsReplacedForTheNextRegion) {
  read_message(1, 0, 4096, 1024);
  staging_.flushed();
  const std::vector<std::uint8_t> data(1000, 7);
  ASSERT_TRUE(staging_.store(kind_, kInflow, FarMemory::address(0), data, false));
  ++far_.life;
  EXPECT_EQ(staging_.fetch(kind_, {wire::Qpn(1), 2}, FarMemory::address(0), 8, 8), nullptr);
  ASSERT_TRUE(table_.register_region({.pd = &pd_,
                                      .host = FarMemory::address(4096),
                                      .length = 4096,
                                      .address = FarMemory::kBase + 4096,
                                      .access = kLocalWrite,
                                      .kind = kind_}));
  EXPECT_FALSE(staging_.finish(kInflow));
  read_message(3, 0, 4096, 1024);
  EXPECT_TRUE(staging_.store(kind_, kInflow, FarMemory::address(0), data, true));
  EXPECT_EQ(far_.octets[999], 7);
}

// A lane that is created between a reset of the device and the next registration.
TEST_F(StagingTest, ALineThatCouldNotBeOpenedIsTriedAgain) {
  Staging later(table_);
  far_.reachable = false;
  later.on_region_opened(*region_);
  EXPECT_EQ(later.fetch(kind_, {wire::Qpn(1), 1}, FarMemory::address(0), 8, 8), nullptr);
  far_.reachable = true;
  later.on_region_opened(*region_);
  EXPECT_NE(later.fetch(kind_, {wire::Qpn(1), 1}, FarMemory::address(0), 8, 8), nullptr);
}

TEST_F(StagingTest, BuffersAreNotReusedWhileFramesReferToThem) {
  std::vector<std::pair<const std::uint8_t*, std::size_t>> lent;
  for (std::size_t i = 0;; ++i) {
    const std::uint8_t* octets =
        staging_.fetch(kind_, {wire::Qpn(1), i}, FarMemory::address(i * 1000), 1000, 1000);
    if (octets == nullptr) break;
    lent.emplace_back(octets, i * 1000);
  }
  EXPECT_EQ(lent.size(), Staging::kReadSlices);
  EXPECT_TRUE(staging_.take_starved());
  EXPECT_FALSE(staging_.take_starved());
  for (const auto& [octets, at] : lent) EXPECT_EQ(std::memcmp(octets, far_.octets.data() + at, 1000), 0);
  staging_.flushed();
  EXPECT_NE(staging_.fetch(kind_, {wire::Qpn(2), 0}, FarMemory::address(0), 10, 10), nullptr);
}

TEST_F(StagingTest, MemoryThatIsGoneIsNotStarvation) {
  far_.reachable = false;
  EXPECT_EQ(staging_.fetch(kind_, {wire::Qpn(1), 0}, FarMemory::address(0), 10, 10), nullptr);
  EXPECT_FALSE(staging_.take_starved());
}

TEST_F(StagingTest, WritesOnceForAMessageAndItsLastWordLast) {
  std::vector<std::uint8_t> data(100'000);
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  const auto whole_before_end = [&] {
    const bool end_came = std::memcmp(far_.octets.data() + 8 + 99'992, data.data() + 99'992, 8) == 0;
    if (end_came) {
      EXPECT_EQ(std::memcmp(far_.octets.data() + 8, data.data(), data.size()), 0);
    }
  };
  far_.after_write = whole_before_end;
  for (std::size_t at = 0; at < data.size(); at += 4096) {
    const std::size_t part = std::min<std::size_t>(4096, data.size() - at);
    ASSERT_TRUE(staging_.store(kind_, kInflow, FarMemory::address(8 + at), {data.data() + at, part},
                               at + part == data.size()));
  }
  EXPECT_EQ(std::memcmp(far_.octets.data() + 8, data.data(), data.size()), 0);
  EXPECT_EQ(far_.write_lengths, (std::vector<std::size_t>{99'992, 8}));
  EXPECT_FALSE(staging_.pending());
}

TEST_F(StagingTest, AWordIsOneCopy) {
  const std::array<std::uint8_t, 8> word{1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(staging_.store(kind_, kInflow, FarMemory::address(16), word, true));
  EXPECT_EQ(far_.write_lengths, (std::vector<std::size_t>{8}));
}

TEST_F(StagingTest, TwoMessagesInTurnsKeepTheirBytes) {
  std::vector<std::uint8_t> data(3 << 20);
  Prng prng(9);
  for (auto& octet : data) octet = static_cast<std::uint8_t>(prng.next());
  const std::size_t half = data.size() / 2;
  for (std::size_t at = 0; at < half; at += 1500) {
    const std::size_t part = std::min<std::size_t>(1500, half - at);
    for (std::uint32_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(staging_.store(kind_, {wire::Qpn(i)}, FarMemory::address(i * half + at),
                                 {data.data() + i * half + at, part}, at + part == half));
    }
  }
  EXPECT_EQ(std::memcmp(far_.octets.data(), data.data(), data.size()), 0);
}

TEST_F(StagingTest, AFailureBelongsToItsMessage) {
  const std::array<std::uint8_t, 4> data{};
  ASSERT_TRUE(staging_.store(kind_, {wire::Qpn(1)}, FarMemory::address(kFarOctets + 64), data, false));
  EXPECT_TRUE(staging_.store(kind_, {wire::Qpn(2)}, FarMemory::address(0), data, true));
  EXPECT_FALSE(staging_.store(kind_, {wire::Qpn(1)}, FarMemory::address(kFarOctets + 68), data, true));
  EXPECT_TRUE(staging_.store(kind_, {wire::Qpn(1)}, FarMemory::address(0), data, true)) << "reported twice";
  far_.breaks = true;
  EXPECT_FALSE(staging_.store(kind_, {wire::Qpn(1)}, FarMemory::address(0), data, true));
}

TEST_F(StagingTest, ARegionClosesOnlyAfterItsBytesArrived) {
  const std::array<std::uint8_t, 4> data{9, 9, 9, 9};
  ASSERT_TRUE(staging_.store(kind_, kInflow, FarMemory::address(0), data, false));
  EXPECT_EQ(far_.writes, 0u);
  ASSERT_TRUE(table_.deregister(*region_).ok());
  EXPECT_EQ(far_.writes, 1u);
  EXPECT_EQ(std::memcmp(far_.octets.data(), data.data(), 4), 0);
}

// Random lists over both kinds of memory, in packets of one length, there and back.
TEST_F(StagingTest, MixedListsThereAndBack) {
  Prng prng(11);
  std::vector<std::uint8_t> near(64 * 1024);
  MemoryRegion* cpu = *table_.register_region(
      {.pd = &pd_, .host = near.data(), .length = near.size(), .address = 0x1000, .access = kLocalWrite});
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::vector<Sge> list;
    std::size_t far_at = prng.below(1000), near_at = prng.below(100);
    const std::size_t elements = 1 + prng.below(6);
    for (std::size_t i = 0; i < elements; ++i) {
      const auto length = static_cast<std::uint32_t>(prng.below(9000));
      if (prng.below(2) == 0) {
        list.push_back(element(far_at, length));
        far_at += length + prng.below(50);
      } else if (near_at + length <= near.size()) {
        list.push_back({0x1000 + near_at, length, {cpu->key}});
        near_at += length + prng.below(50);
      }
    }
    const std::uint64_t total = total_length(list);
    std::vector<std::uint8_t> data(total);
    for (auto& octet : data) octet = static_cast<std::uint8_t>(prng.next());
    for (std::uint64_t at = 0; at < total; at += 1024) {
      const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(1024, total - at));
      ASSERT_EQ(
          scatter(table_, pd_, list, at, {data.data() + at, part}, at + part == total, staging_, kInflow),
          Cause::kNone);
    }
    ASSERT_FALSE(staging_.pending());
    std::vector<std::uint8_t> back;
    for (std::uint64_t at = 0; at < total; at += 1024) {
      const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(1024, total - at));
      Frame frame;
      ASSERT_EQ(gather(table_, pd_, list, at, part, frame, staging_, {wire::Qpn(1), round}), Cause::kNone);
      ASSERT_TRUE(is_mapped(frame));
      for (std::size_t i = 0; i < frame.span_count; ++i)
        back.insert(back.end(), frame.spans[i].data, frame.spans[i].data + frame.spans[i].length);
      staging_.flushed();
    }
    ASSERT_EQ(back, data) << round;
  }
}

}  // namespace
}  // namespace rrdma::objects
