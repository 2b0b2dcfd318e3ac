#include "transport/qp/read_parts.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/prng.h"

namespace rrdma::transport::read_parts_test {

std::vector<ReadPart> listed(const ReadParts& parts) { return {parts.all().begin(), parts.all().end()}; }

TEST(ReadParts, KeepsSinglePacketsApart) {
  ReadParts parts;
  parts.set({40, 41});
  parts.add({3, 4});
  parts.add({60, 64});
  EXPECT_EQ(listed(parts), (std::vector<ReadPart>{{3, 4}, {40, 41}, {60, 64}}));
  EXPECT_TRUE(parts.advance(1));
  EXPECT_EQ(parts.first(), (ReadPart{40, 41}));
}

TEST(ReadParts, JoinsWhatTouches) {
  ReadParts parts;
  parts.set({10, 20});
  parts.add({20, 30});
  parts.add({5, 10});
  parts.add({40, 50});
  parts.add({28, 45});
  EXPECT_EQ(listed(parts), (std::vector<ReadPart>{{5, 50}}));
}

// The rest of a response in progress, and packets of it that were lost.
TEST(ReadParts, GoesBackForLostPacketsWithoutRepeatingTheOthers) {
  ReadParts parts;
  parts.set({0, 64});
  EXPECT_FALSE(parts.advance(32));
  parts.add({3, 4});
  EXPECT_EQ(listed(parts), (std::vector<ReadPart>{{3, 4}, {32, 64}}));
}

TEST(ReadParts, AReadOfNoBytesIsAPart) {
  ReadParts parts;
  parts.set({0, 0});
  parts.add({0, 0});
  EXPECT_EQ(parts.all().size(), 1U);
  EXPECT_TRUE(parts.advance(0));
  EXPECT_TRUE(parts.empty());
}

// Against a set of bytes: everything that was asked for is sent, in order, and no more unless room is short.
TEST(ReadParts, CoversWhatWasAskedFor) {
  Prng random(11);
  for (int round = 0; round < 2'000; ++round) {
    ReadParts parts;
    std::set<std::uint32_t> wanted;
    const auto ask = [&](bool only) {
      const auto next = static_cast<std::uint32_t>(random.below(100));
      const auto end = next + 1 + static_cast<std::uint32_t>(random.below(8));
      if (only) {
        parts.set({next, end});
      } else {
        parts.add({next, end});
      }
      for (std::uint32_t i = next; i < end; ++i) wanted.insert(i);
    };
    ask(true);
    for (std::uint64_t more = random.below(12); more > 0; --more) {
      ask(false);
      const std::size_t before = wanted.size();
      std::size_t covered = 0;
      for (std::size_t i = 0; i < parts.all().size(); ++i) {
        const ReadPart& part = parts.all()[i];
        ASSERT_LT(part.next, part.end);
        if (i != 0) {
          ASSERT_GT(part.next, parts.all()[i - 1].end);
        }
        for (std::uint32_t at = part.next; at < part.end; ++at) covered += wanted.count(at);
      }
      ASSERT_EQ(covered, before);
    }
  }
}

TEST(ReadParts, WithoutRoomJoinsTheNearest) {
  ReadParts parts;
  parts.set({0, 1});
  for (std::uint32_t at : {10u, 20u, 30u, 40u}) parts.add({at, at + 1});
  parts.add({33, 34});
  EXPECT_EQ(listed(parts), (std::vector<ReadPart>{{0, 1}, {10, 11}, {20, 21}, {30, 34}, {40, 41}}));
  parts.add({38, 39});
  EXPECT_EQ(listed(parts), (std::vector<ReadPart>{{0, 1}, {10, 11}, {20, 21}, {30, 34}, {38, 41}}));
  parts.add({50, 51});
  EXPECT_EQ(parts.all().back(), (ReadPart{38, 51}));
}

}  // namespace rrdma::transport::read_parts_test
