// gather() and scatter() compared with a model that lists every byte individually.
#include <gtest/gtest.h>

#include <numeric>

#include "base/prng.h"
#include "objects/memory.h"
#include "objects/staging.h"

namespace rrdma::objects::gather_scatter_test {

constexpr std::uint32_t kOwner = kLocalWrite;

class GatherScatter : public testing::Test {
 protected:
  void SetUp() override {
    std::iota(memory_.begin(), memory_.end(), std::uint8_t{0});
    region_ = *table_.register_region(
        {.pd = &pd_, .host = memory_.data(), .length = memory_.size(), .address = kBase, .access = kOwner});
    null_ = *table_.register_region({.pd = &pd_, .access = kOwner, .null_region = true});
  }
  Sge element(std::uint64_t offset, std::uint32_t length) const {
    return {.address = kBase + offset, .length = length, .lkey = {region_->key}};
  }
  std::vector<std::uint8_t> gathered(std::span<const Sge> list, std::uint64_t offset, std::uint32_t length) {
    frame_.clear();
    EXPECT_EQ(gather(table_, pd_, list, offset, length, frame_, staging_, {}), Cause::kNone);
    EXPECT_EQ(frame_.payload_octets, length);
    std::vector<std::uint8_t> octets;
    for (unsigned i = 0; i < frame_.span_count; ++i) {
      EXPECT_GT(frame_.spans[i].length, 0u);
      octets.insert(octets.end(), frame_.spans[i].data, frame_.spans[i].data + frame_.spans[i].length);
    }
    return octets;
  }

  static constexpr std::uint64_t kBase = 0x7000;
  MemoryTable table_{1};
  Staging staging_{table_};
  ProtectionDomain pd_;
  ProtectionDomain other_pd_;
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(4096);
  MemoryRegion* region_ = nullptr;
  MemoryRegion* null_ = nullptr;
  Frame frame_;
};

TEST_F(GatherScatter, AsManyElementsAsARequestMayHave) {
  std::vector<Sge> list;
  for (std::uint32_t i = 0; i < kSgeMax; ++i) list.push_back(element(i * 100, 3));
  EXPECT_EQ(total_length(list), kSgeMax * 3);
  const auto octets = gathered(list, 0, kSgeMax * 3);
  EXPECT_EQ(frame_.span_count, kSgeMax);
  for (std::uint32_t i = 0; i < octets.size(); ++i) EXPECT_EQ(octets[i], memory_[i / 3 * 100 + i % 3]);
}

TEST_F(GatherScatter, OffsetsOnBeforeAndBehindEachBoundary) {
  const Sge list[] = {element(0, 10), element(500, 0), element(100, 1), element(200, 20)};
  std::vector<std::uint8_t> whole;
  for (const auto& sge : list) {
    for (std::uint32_t i = 0; i < sge.length; ++i) whole.push_back(memory_[sge.address - kBase + i]);
  }
  for (std::uint32_t offset = 0; offset <= 31; ++offset) {
    for (std::uint32_t length = 0; length <= 31 - offset; ++length) {
      EXPECT_EQ(gathered(list, offset, length),
                std::vector<std::uint8_t>(whole.begin() + offset, whole.begin() + offset + length));
    }
  }
}

TEST_F(GatherScatter, GatheringCopiesNothingAndAppends) {
  const Sge list[] = {element(40, 8)};
  frame_.clear();
  frame_.add_span(memory_.data(), 4);
  ASSERT_EQ(gather(table_, pd_, list, 2, 5, frame_, staging_, {}), Cause::kNone);
  EXPECT_EQ(frame_.span_count, 2);
  EXPECT_EQ(frame_.spans[1].data, memory_.data() + 42);
  EXPECT_EQ(frame_.payload_octets, 9u);
}

TEST_F(GatherScatter, TheNullRegionReadsAsZeroesAndSwallowsWrites) {
  const Sge list[] = {element(1, 2), {.address = 12, .length = 70'000, .lkey = {null_->key}}, element(9, 2)};
  const auto octets = gathered(list, 0, 10);
  EXPECT_EQ(octets, (std::vector<std::uint8_t>{1, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
  const std::vector<std::uint8_t> data(70'004, 0xee);
  EXPECT_EQ(scatter(table_, pd_, list, 0, data, true, staging_, {}), Cause::kNone);
  EXPECT_EQ(memory_[1], 0xee);
  EXPECT_EQ(memory_[9], 0xee);
  EXPECT_EQ(memory_[10], 0xee);
  EXPECT_EQ(memory_[3], 3);
  EXPECT_EQ(memory_[11], 11);
}

// Only accessed elements are checked: elements beyond the end of a short message do not matter.
TEST_F(GatherScatter, Refusals) {
  auto* read_only =
      *table_.register_region({.pd = &pd_, .host = memory_.data(), .length = 64, .address = 0x100});
  auto* foreign =
      *table_.register_region({.pd = &other_pd_, .host = memory_.data(), .length = 64, .access = kOwner});
  struct {
    Sge sge;
    Cause gather, scatter;
  } const cases[] = {
      {{.address = kBase, .length = 8, .lkey = {region_->key ^ 1}},
       Cause::kLocalKeyUnknown,
       Cause::kLocalKeyUnknown},
      {{.address = 0, .length = 8, .lkey = {foreign->key}},
       Cause::kLocalKeyOtherDomain,
       Cause::kLocalKeyOtherDomain},
      {{.address = 0x100, .length = 8, .lkey = {read_only->key}}, Cause::kNone, Cause::kLocalNotWritable},
      {element(4089, 8), Cause::kLocalOutOfBounds, Cause::kLocalOutOfBounds},
      {{.address = ~std::uint64_t{0} - 3, .length = 8, .lkey = {region_->key}},
       Cause::kLocalOutOfBounds,
       Cause::kLocalOutOfBounds},
  };
  const std::uint8_t data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const auto& c : cases) {
    const Sge list[] = {element(0, 4), c.sge};
    frame_.clear();
    EXPECT_EQ(gather(table_, pd_, list, 0, 12, frame_, staging_, {}), c.gather);
    EXPECT_EQ(scatter(table_, pd_, list, 0, data, true, staging_, {}), c.scatter);
    frame_.clear();
    EXPECT_EQ(gather(table_, pd_, list, 0, 4, frame_, staging_, {}), Cause::kNone);
    EXPECT_EQ(scatter(table_, pd_, list, 0, std::span(data, 4), true, staging_, {}), Cause::kNone);
  }
}

// The second half of such an element has low addresses, which a zero-based region would grant.
TEST_F(GatherScatter, AnElementThatWrapsAroundTheAddressSpaceIsRefusedBehindTheWrapToo) {
  auto* zero_based = *table_.register_region(
      {.pd = &pd_, .host = memory_.data(), .length = 64, .address = 0, .access = kOwner | kZeroBased});
  const Sge list[] = {{.address = ~std::uint64_t{0} - 15, .length = 32, .lkey = {zero_based->key}}};
  const std::uint8_t data[16] = {};
  frame_.clear();
  EXPECT_EQ(gather(table_, pd_, list, 16, 16, frame_, staging_, {}), Cause::kLocalOutOfBounds);
  EXPECT_EQ(scatter(table_, pd_, list, 16, data, true, staging_, {}), Cause::kLocalOutOfBounds);
}

struct Model {
  std::vector<Sge> list;
  std::vector<std::ptrdiff_t> octets;  // index into memory_, -1 in the null region
};

TEST_F(GatherScatter, AnyListBehavesAsTheModelDoes) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng prng(seed);
    Model model;
    // The model requires disjoint elements in a scatter list: each element has its own part of memory_.
    const std::uint64_t count = prng.between(1, kSgeMax);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto length = static_cast<std::uint32_t>(prng.below(4) == 0 ? prng.below(2) : prng.below(100));
      const bool null = prng.below(8) == 0;
      const std::uint64_t start = i * 128 + prng.below(128 - length);
      model.list.push_back(null ? Sge{.address = prng.next(), .length = length, .lkey = {null_->key}}
                                : element(start, length));
      if (null) model.list.back().address >>= 1;
      for (std::uint32_t k = 0; k < length; ++k)
        model.octets.push_back(null ? -1 : static_cast<std::ptrdiff_t>(start + k));
    }
    const auto total = static_cast<std::uint32_t>(model.octets.size());
    ASSERT_EQ(total_length(model.list), total);
    for (int round = 0; round < 20; ++round) {
      const auto offset = static_cast<std::uint32_t>(prng.between(0, total));
      const auto length = static_cast<std::uint32_t>(prng.between(0, total - offset));

      std::vector<std::uint8_t> expected;
      for (std::uint32_t i = offset; i < offset + length; ++i) {
        expected.push_back(model.octets[i] < 0 ? 0 : memory_[static_cast<std::size_t>(model.octets[i])]);
      }
      ASSERT_EQ(gathered(model.list, offset, length), expected);

      std::vector<std::uint8_t> data(length), after = memory_;
      for (std::uint32_t i = 0; i < length; ++i) {
        data[i] = static_cast<std::uint8_t>(prng.next());
        if (model.octets[offset + i] >= 0)
          after[static_cast<std::size_t>(model.octets[offset + i])] = data[i];
      }
      ASSERT_EQ(scatter(table_, pd_, model.list, offset, data, prng.below(2) == 0, staging_, {}),
                Cause::kNone);
      ASSERT_EQ(memory_, after);
    }
  }
}

}  // namespace rrdma::objects::gather_scatter_test
