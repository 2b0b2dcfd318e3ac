#include "nic/lane/failure_log.h"

#include <gtest/gtest.h>

#include "host/explain_log.h"
#include "objects/cause.h"

namespace rrdma::nic::failure_log_test {

using host::ExplainFacts;

ExplainFacts write_that_met(objects::Status status, objects::Cause cause) {
  ExplainFacts facts;
  facts.kind = ExplainFacts::kSend;
  facts.status = static_cast<std::uint8_t>(status);
  facts.cause = static_cast<std::uint8_t>(cause);
  facts.opcode = static_cast<std::uint8_t>(objects::CompletionOpcode::kWrite);
  facts.qpn = 0x030001;
  facts.peer_qpn = 0x040002;
  facts.peer.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};
  facts.psn = 77;
  facts.length = 65536;
  facts.wr_id = 5;
  facts.rkey = 0x1234;
  facts.remote_address = 0x7f0000001000;
  return facts;
}

ExplainFacts facts_losing(ExplainFacts facts, std::uint64_t packets) {
  facts.lost = packets;
  return facts;
}

TEST(FailureSentence, ANakWithItsCode) {
  ExplainFacts facts =
      write_that_met(objects::Status::kRemoteAccessError, objects::Cause::kPeerSaidAccessError);
  facts.syndrome = 0x62;
  facts.moved = 4096;
  EXPECT_EQ(
      failure_sentence(facts),
      "RDMA WRITE of 65536 bytes (wr_id 5) from QP 0x030001 to QP 0x040002 at 10.9.0.2 failed with status "
      "10 (remote access error): the peer answered NAK: remote access error; the answer to PSN 77 was NAK "
      "code 2; remote address 0x7f0000001000, rkey 0x00001234; 4096 bytes of it had arrived. Compare "
      "remote_addr, rkey and length with the peer's ibv_mr and its access rights; `rrdma explain` there "
      "names "
      "the cause.");
}

TEST(FailureSentence, RetriesWithTheirTimes) {
  ExplainFacts facts = write_that_met(objects::Status::kRetryExceeded, objects::Cause::kPeerSilent);
  facts.attempts = 3;
  facts.attempt_us[0] = 4200;
  facts.attempt_us[1] = 67'100;
  facts.attempt_us[2] = 134'200;
  facts.failed_us = 201'300;
  EXPECT_NE(failure_sentence(facts).find("; PSN 77 was retransmitted 3 times (after a timeout), at 4.20, 67, "
                                         "134 ms, and given up at 201 ms;"),
            std::string::npos)
      << failure_sentence(facts);
}

TEST(FailureSentence, InjectedLossesAreNamedWhereTheyCanBeTheReason) {
  const std::string named = "Injected faults dropped 8 packets: the likely reason.";
  ExplainFacts facts = write_that_met(objects::Status::kRetryExceeded, objects::Cause::kPeerSilent);
  EXPECT_NE(failure_sentence(facts_losing(facts, 8)).find(named), std::string::npos)
      << failure_sentence(facts_losing(facts, 8));
  EXPECT_EQ(failure_sentence(facts).find("Injected"), std::string::npos);
  facts = write_that_met(objects::Status::kRemoteAccessError, objects::Cause::kPeerSaidAccessError);
  EXPECT_EQ(failure_sentence(facts_losing(facts, 8)).find("Injected"), std::string::npos)
      << "dropped packets draw no NAK";
}

TEST(FailureSentence, AnswersOfTheNetwork) {
  ExplainFacts facts = write_that_met(objects::Status::kRetryExceeded, objects::Cause::kPeerSilent);
  facts.report = ExplainFacts::kHopsExceeded;
  facts.reporter.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 1, 1};
  EXPECT_NE(failure_sentence(facts).find(
                "; 10.9.1.1 dropped our packets because their TTL ran out (ICMP time exceeded)"),
            std::string::npos)
      << failure_sentence(facts);
}

TEST(FailureSentence, AKnownReasonNeedsNoOtherRemedy) {
  constexpr std::string_view kGuess = "Check that the peer runs";
  ExplainFacts facts = write_that_met(objects::Status::kRetryExceeded, objects::Cause::kPeerSilent);
  EXPECT_NE(failure_sentence(facts).find(kGuess), std::string::npos) << failure_sentence(facts);
  facts.report = ExplainFacts::kHopsExceeded;
  EXPECT_EQ(failure_sentence(facts).find(kGuess), std::string::npos) << failure_sentence(facts);
  EXPECT_NE(failure_sentence(facts).find("Look for a routing loop"), std::string::npos)
      << failure_sentence(facts);
  facts.peer_fate = ExplainFacts::kKilled;
  facts.peer_pid = 12;
  EXPECT_TRUE(failure_sentence(facts).ends_with(". Look at why the peer's process has ended."))
      << failure_sentence(facts);
}

ExplainFacts refused(objects::Cause cause, objects::CompletionOpcode opcode) {
  ExplainFacts facts = write_that_met(objects::Status::kRemoteAccessError, cause);
  facts.kind = ExplainFacts::kRefused;
  facts.opcode = static_cast<std::uint8_t>(opcode);
  facts.region = ExplainFacts::kNamedByKey;
  facts.region_key = 0x12ab00;
  facts.region_address = 0x7f0000001000;
  facts.region_length = 65536;
  facts.region_access = objects::kLocalWrite | objects::kRemoteRead;
  return facts;
}

void expect_says(const ExplainFacts& facts, std::string_view words) {
  EXPECT_NE(failure_sentence(facts).find(words), std::string::npos) << failure_sentence(facts);
}

TEST(FailureSentence, TheRegionAndByHowMuchTheAccessMissesIt) {
  ExplainFacts facts = refused(objects::Cause::kRemoteOutOfBounds, objects::CompletionOpcode::kRead);
  facts.remote_address = facts.region_address + 65500;
  facts.length = 100;
  expect_says(facts,
              "bytes [+65500, +65600) run 64 bytes past the end of MR 0x0012ab00 (65536 bytes at "
              "0x7f0000001000)");
  facts.remote_address = facts.region_address - 16;
  expect_says(facts, "bytes [-16, +84) begin 16 bytes before MR 0x0012ab00");
}

TEST(FailureSentence, TheKeyThatWasMeant) {
  ExplainFacts facts = refused(objects::Cause::kRemoteKeyUnknown, objects::CompletionOpcode::kWrite);
  facts.region = ExplainFacts::kNearest;
  expect_says(facts,
              "the address lies in MR 0x0012ab00 (65536 bytes at 0x7f0000001000), whose rkey is "
              "0x0012ab00, not 0x00001234");
  facts.remote_address = 0x10;
  expect_says(facts, "no MR holds address 0x10, the nearest is MR 0x0012ab00");
  facts.region = ExplainFacts::kNoRegion;
  EXPECT_EQ(failure_sentence(facts).find("MR"), std::string::npos) << failure_sentence(facts);
}

TEST(FailureSentence, TheRightsThatAreThereAndTheOneThatIsNeeded) {
  expect_says(refused(objects::Cause::kRemoteAccessNotGranted, objects::CompletionOpcode::kWrite),
              "has the rights LOCAL_WRITE | REMOTE_READ, and the request needs REMOTE_WRITE");
}

TEST(FailureSentence, TheFateOfThePeer) {
  ExplainFacts facts = write_that_met(objects::Status::kRetryExceeded, objects::Cause::kPeerSilent);
  facts.peer_fate = ExplainFacts::kKilled;
  facts.peer_pid = 4711;
  std::string_view("server").copy(facts.peer_program, sizeof facts.peer_program - 1);
  expect_says(facts, "the peer was process 4711 (server), which was killed or crashed");
  facts.peer_fate = ExplainFacts::kExited;
  expect_says(facts, "the peer was process 4711 (server), which has exited");
  facts.cause = static_cast<std::uint8_t>(objects::Cause::kPeerSaidAccessError);
  EXPECT_EQ(failure_sentence(facts).find("4711"), std::string::npos) << "a peer that answers is alive";
}

TEST(FailureSentence, EveryCauseAndStatusFitsItsPlace) {
  for (int status = 1; status <= 21; ++status) {
    for (int cause = 0; cause < 128; ++cause) {
      ExplainFacts facts =
          write_that_met(static_cast<objects::Status>(status), static_cast<objects::Cause>(cause));
      facts.attempts = 200;
      facts.syndrome = 0x25;
      for (auto& us : facts.attempt_us) us = 4'000'000'000;
      facts.length = facts.moved = 0xffffffff;
      facts.wr_id = facts.remote_address = ~std::uint64_t{0};
      facts.peer.octets.fill(0xfe);
      facts.region = ExplainFacts::kNamedByKey;
      facts.region_length = 65536;
      facts.region_access = objects::kAccessAll;
      facts.peer_fate = ExplainFacts::kKilled;
      facts.peer_pid = 4'194'304;
      for (const auto kind : {ExplainFacts::kSend, ExplainFacts::kReceive, ExplainFacts::kRefused}) {
        facts.kind = kind;
        const std::string sentence = failure_sentence(facts_losing(facts, ~std::uint64_t{0}));
        EXPECT_LT(sentence.size(), sizeof(host::ExplainRecord::sentence)) << sentence;
        EXPECT_EQ(sentence.back(), '.');
        EXPECT_NE(sentence.find(objects::describe(static_cast<objects::Cause>(cause))), std::string::npos);
      }
    }
  }
}

}  // namespace rrdma::nic::failure_log_test
