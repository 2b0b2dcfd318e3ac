// Answers that a process leaves behind, as its peer finds them.
#include "link/shm/answer_rows.h"

#include <gtest/gtest.h>

#include "link/shm/shm_link.h"

namespace rrdma::link::answer_rows_test {

struct Ends {
  Ends() {
    auto pair = ShmChannel::create(kRingOctetsMin).value();
    here.emplace(std::move(pair.own));
    there.emplace(ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value());
  }
  std::optional<ShmChannel> here, there;
};

void write(std::atomic<std::uint64_t>& place, std::uint32_t psn) {
  wire::LastAnswer::write(place, wire::Psn(psn), psn + 1, Instant{});
}

TEST(AnswerRows, ThePeerFindsTheLastAnswerOfEachQp) {
  Ends ends;
  AnswerRows here(*ends.here), there(*ends.there);
  std::atomic<std::uint64_t>* seven = here.claim(wire::Qpn(7));
  std::atomic<std::uint64_t>* eight = here.claim(wire::Qpn(8));
  ASSERT_NE(seven, nullptr);
  ASSERT_NE(eight, nullptr);
  EXPECT_EQ(here.claim(wire::Qpn(7)), seven);
  EXPECT_FALSE(there.find_peers(wire::Qpn(7)).has_value()) << "nothing was answered";
  write(*seven, 100);
  write(*eight, 200);
  write(*seven, 101);
  EXPECT_EQ(there.find_peers(wire::Qpn(7)).value().psn.value, 101u);
  EXPECT_EQ(there.find_peers(wire::Qpn(7)).value().msn, 102u);
  EXPECT_EQ(there.find_peers(wire::Qpn(8)).value().psn.value, 200u);
  EXPECT_FALSE(there.find_peers(wire::Qpn(9)).has_value());
  EXPECT_FALSE(here.find_peers(wire::Qpn(7)).has_value()) << "its own";
}

TEST(AnswerRows, TheAnswerOfADestroyedQpStaysUntilItsRowIsNeeded) {
  Ends ends;
  AnswerRows here(*ends.here), there(*ends.there);
  write(*here.claim(wire::Qpn(7)), 100);
  here.release(wire::Qpn(7));
  for (std::uint32_t i = 0; i + 1 < kAnswerRows; ++i) ASSERT_NE(here.claim(wire::Qpn(1000 + i)), nullptr);
  EXPECT_EQ(there.find_peers(wire::Qpn(7)).value().psn.value, 100u);
  ASSERT_NE(here.claim(wire::Qpn(8)), nullptr);
  EXPECT_FALSE(there.find_peers(wire::Qpn(7)).has_value());
  EXPECT_FALSE(there.find_peers(wire::Qpn(8)).has_value()) << "the answer of another QP";
  EXPECT_EQ(here.claim(wire::Qpn(9)), nullptr) << "all are taken";
}

// If both sides made a channel at the same time, each answers into its own.
TEST(AnswerRows, AllChannelsToAProcessAreSearched) {
  Ends first, second;
  auto here = ShmLink::create().value();
  auto there = ShmLink::create().value();
  const std::uint32_t own = here->add_channel(std::move(*first.here), 5).value();
  ASSERT_TRUE(here->add_channel(std::move(*second.there), 5).ok());
  ASSERT_TRUE(there->add_channel(std::move(*first.there), 6).ok());
  const std::uint32_t peers = there->add_channel(std::move(*second.here), 6).value();
  write(*there->claim_answer(peers, wire::Qpn(7)), 100);
  EXPECT_EQ(here->last_answer(own, wire::Qpn(7)).value().psn.value, 100u);
  EXPECT_FALSE(here->last_answer(own, wire::Qpn(8)).has_value());
}

}  // namespace rrdma::link::answer_rows_test
