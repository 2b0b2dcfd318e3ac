#include "sim/answer_judge.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rrdma::sim::answer_judge_test {

using wire::Opcode;
using wire::Step;
using wire::TransportPacket;

constexpr wire::Qpn kReceiver{7};
constexpr wire::Qpn kSender{9};
constexpr std::uint32_t kFirst = 0xfffffe;  // wraps during the test

class Judged : public ::testing::Test {
 protected:
  Judged() { judge.connect(kReceiver, kSender, wire::Psn(kFirst), 1024); }

  static Opcode rc(Step step) { return {wire::Transport::kReliableConnection, step}; }
  void arrives(std::uint32_t at, Step step = Step::kWriteMiddle, std::uint32_t octets = 0) {
    TransportPacket packet;
    packet.headers.bth = {.opcode = rc(step), .destination = kReceiver, .psn = wire::Psn(kFirst) + at};
    packet.headers.reth.length = octets;
    judge.delivered(packet, {});
  }
  void answers(std::uint32_t at, std::uint8_t syndrome = wire::kSyndromeAckNoCredits) {
    TransportPacket packet;
    packet.headers.bth = {
        .opcode = rc(Step::kAcknowledge), .destination = kSender, .psn = wire::Psn(kFirst) + at};
    packet.headers.aeth.syndrome = syndrome;
    judge.answered(packet);
  }
  void maps(std::uint32_t expected, std::vector<std::uint8_t> bits) {
    TransportPacket packet;
    packet.headers.bth = {
        .opcode = wire::kArrivalMap, .destination = kSender, .psn = wire::Psn(kFirst) + expected};
    packet.headers.aeth.syndrome = wire::kSyndromeAckNoCredits;
    packet.payload = bits;
    judge.answered(packet);
  }
  bool accused(const char* of) {
    const bool found = said.size() == 1 && said[0].find(of) != std::string::npos;
    if (!found) ADD_FAILURE() << (said.empty() ? "nothing was said" : said.front());
    return found;
  }

  std::vector<std::string> said;
  AnswerJudge judge{[this](std::string promise) { said.push_back(std::move(promise)); }};
};

constexpr std::uint8_t kNak =
    wire::kSyndromeNakBase | static_cast<std::uint8_t>(wire::NakCode::kSequenceError);

TEST_F(Judged, HonestAnswersAreNotAccused) {
  for (const std::uint32_t at : {0u, 1u, 3u, 4u, 6u}) arrives(at);
  answers(1);
  answers(2, kNak);
  maps(2, {0x68});
  arrives(2);
  arrives(2);
  answers(4);
  maps(5, {0x40});
  arrives(5);
  answers(6);
  EXPECT_TRUE(said.empty()) << said.front();
}

TEST_F(Judged, AReadIsAllItsResponses) {
  arrives(0);
  arrives(1, Step::kReadRequest, 3 * 1024 + 1);
  answers(4);
  EXPECT_TRUE(said.empty());
  answers(5);
  accused("acknowledges what was not delivered");
}

TEST_F(Judged, WhatWasNotDeliveredIsNotAcknowledged) {
  for (const std::uint32_t at : {0u, 1u, 3u}) arrives(at);
  answers(2);
  accused("acknowledges what was not delivered");
}

TEST_F(Judged, ANakSaysThatAllBeforeItIsHere) {
  arrives(0);
  answers(1, kNak);
  EXPECT_TRUE(said.empty());
  answers(2, kNak);
  accused("acknowledges what was not delivered");
}

TEST_F(Judged, AMapNamesOnlyWhatIsHere) {
  for (const std::uint32_t at : {0u, 3u, 4u}) arrives(at);
  maps(1, {0x60});  // one too early
  accused("names a packet that was not delivered");
}

TEST_F(Judged, WhatWasNamedStaysNamed) {
  for (const std::uint32_t at : {0u, 2u, 3u, 5u}) arrives(at);
  maps(1, {0x68});
  arrives(1);
  maps(4, {0x40});  // the earlier ones were executed
  EXPECT_TRUE(said.empty());
  arrives(7);
  maps(4, {0x10});
  accused("does not name any more");
}

TEST_F(Judged, WhatWasExecutedIsNotExpectedAgain) {
  for (const std::uint32_t at : {0u, 1u, 3u}) arrives(at);
  maps(2, {0x40});
  maps(1, {0x20});
  accused("expects again");
}

TEST_F(Judged, GapsAreCountedWhereTheyAreHeardOf) {
  TransportPacket packet;
  packet.headers.bth = {.opcode = rc(Step::kAcknowledge), .destination = kSender, .psn = wire::Psn(kFirst)};
  for (const std::int64_t at : {10, 20, 30}) {
    packet.headers.aeth.syndrome = kNak;
    judge.delivered(packet, {at});
    packet.headers.aeth.syndrome = wire::kSyndromeAckNoCredits;
    judge.delivered(packet, {at});
  }
  EXPECT_EQ(judge.gaps_told(kSender, {0}), 3u);
  EXPECT_EQ(judge.gaps_told(kSender, {20}), 2u);
  EXPECT_EQ(judge.gaps_told(kSender, {31}), 0u);
  EXPECT_EQ(judge.gaps_told(kReceiver, {0}), 0u);
}

TEST_F(Judged, AConnectionBeginsAnew) {
  for (const std::uint32_t at : {0u, 1u, 3u}) arrives(at);
  maps(2, {0x40});
  judge.connect(kReceiver, kSender, wire::Psn(kFirst), 1024);
  answers(0);
  accused("acknowledges what was not delivered");
}

}  // namespace rrdma::sim::answer_judge_test
