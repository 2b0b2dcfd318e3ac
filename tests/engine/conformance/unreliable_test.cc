// Unreliable connections and datagrams: no answers, no retransmission, broken messages are dropped.
#include <gtest/gtest.h>

#include "script.h"
#include "sim/pattern.h"

namespace rrdma::conformance::unreliable_test {

ScriptOptions of(transport::QpType type) {
  ScriptOptions options;
  options.type = type;
  return options;
}

TEST(UnreliableConnection, SendsWithoutAskingAndCompletesAtOnce) {
  Script script(of(transport::QpType::kUc));
  script.play(R"(
    post send 1 300
    < SEND FIRST psn 1000 +256
    < SEND LAST psn 1001 +44
    = 1 success 300
    post write_imm 2 4 imm 0x5
    < RDMA WRITE ONLY WITH IMMEDIATE psn 1002 +4 va 0x5000 dma 4 imm 0x5
    = 2 success 4
  )");
}

TEST(UnreliableConnection, ReceivesWithoutAnswering) {
  Script script(of(transport::QpType::kUc));
  script.play(R"(
    recv 7 1000
    > SEND FIRST psn 0 a +256
    > SEND LAST psn 1 a +10
    = 7 success 266
    > RDMA WRITE ONLY psn 2 a va 0x10000 +8
  )");
  std::array<std::uint8_t, 8> expected{};
  sim::fill_pattern(expected, 2, 0);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), script.at(0x10000)));
}

TEST(UnreliableConnection, AGapBreaksTheMessageAndTheNextOneStartsAnew) {
  Script script(of(transport::QpType::kUc));
  script.play(R"(
    recv 7 1000
    > SEND FIRST psn 0 +256
    # 1 is lost
    > SEND MIDDLE psn 2 +256
    > SEND LAST psn 3 +10
    # the receive that the broken message took serves this one
    > SEND ONLY psn 4 +20
    = 7 success 20
  )");
  EXPECT_GE(script.counters().dropped_uc_gap, 1u);
}

TEST(UnreliableConnection, LosesTheEndOfOneAndTheBeginningOfTheNext) {
  Script script(of(transport::QpType::kUc));
  script.play(R"(
    recv 7 1000
    > SEND FIRST psn 0 +256
    # 1 (LAST) and 2 (FIRST) are lost: 3 must not be taken for the end of the first message
    > SEND LAST psn 3 +10
    > SEND ONLY psn 4 +5
    = 7 success 5
  )");
}

TEST(UnreliableConnection, AMissingReceiveDropsTheMessage) {
  Script script(of(transport::QpType::kUc));
  script.play(R"(
    > SEND ONLY psn 0 +5
    > SEND FIRST psn 1 +256
    recv 7 1000
    > SEND LAST psn 2 +5
    > SEND ONLY psn 3 +6
    = 7 success 6
  )");
  EXPECT_GE(script.counters().dropped_no_receive, 2u);
}

TEST(UnreliableConnection, DropsWhatItMustNotDoAndSaysNothing) {
  Script script(of(transport::QpType::kUc));
  const std::uint8_t before = *script.at(0x10000);
  script.play(R"(
    recv 7 10
    > RDMA WRITE ONLY psn 0 key bad +8
    > RDMA WRITE ONLY psn 1 key readonly +8
    > RDMA WRITE ONLY psn 2 va 0x1fff9 +8
    > RDMA WRITE ONLY psn 3 dma 9 +8
    > SEND ONLY psn 4 +11
    > SEND ONLY psn 5 +10
    = 7 success 10
  )");
  EXPECT_EQ(*script.at(0x10000), before);
  EXPECT_EQ(script.qp().state, transport::QpState::kReadyToSend);
}

TEST(Datagram, CarriesFortyOctetsInFrontOfThePayload) {
  Script script(of(transport::QpType::kUd));
  script.play(R"(
    recv 7 100
    recv 8 100
    > SEND ONLY psn 77 +10
    = 7 success 50
    > SEND ONLY WITH IMMEDIATE psn 3 s imm 0x8 +0
    = 8 success 40 imm 0x8 s
    post send 1 100
    < SEND ONLY psn 1000 +100
    = 1 success 100
  )");
}

TEST(Datagram, AWrongQKeyIsDropped) {
  Script script(of(transport::QpType::kUd));
  script.play(R"(
    recv 7 100
    > SEND ONLY psn 0 qkey 0x4321 +10
    > SEND ONLY psn 0 +10
    = 7 success 50
  )");
  EXPECT_EQ(script.counters().dropped_qkey, 1u);
}

TEST(Datagram, ADatagramThatDoesNotFitLeavesTheReceive) {
  Script script(of(transport::QpType::kUd));
  script.play(R"(
    > SEND ONLY psn 0 +10
    recv 7 50
    > SEND ONLY psn 1 +11
    > SEND ONLY psn 2 +10
    = 7 success 50
  )");
  EXPECT_EQ(script.counters().dropped_no_receive, 1u);
  EXPECT_EQ(script.counters().dropped_too_long, 1u);
}

}  // namespace rrdma::conformance::unreliable_test
