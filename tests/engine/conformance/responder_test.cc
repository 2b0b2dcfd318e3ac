// The responder of a reliable connection, clause by clause: what it accepts, what it answers, and when it
// stays silent. MTU 256; the peer's first PSN is 0; "good" is a region with all rights.
#include <gtest/gtest.h>

#include "script.h"
#include "sim/pattern.h"

namespace rrdma::conformance::responder_test {

bool placed(Script& script, std::uint64_t address, std::uint32_t psn, std::size_t octets) {
  std::vector<std::uint8_t> expected(octets);
  sim::fill_pattern(expected, psn, 0);
  return std::equal(expected.begin(), expected.end(), script.at(address));
}

TEST(Responder, AcknowledgesWhenAsked) {
  Script script;
  script.play(R"(
    recv 7 1000
    recv 8 1000
    # no AckReq, no ACK
    > SEND ONLY psn 0 +10
    = 7 success 10
    > SEND ONLY psn 1 a +20
    < ACKNOWLEDGE psn 1 ack msn 2
    = 8 success 20
  )");
  EXPECT_TRUE(placed(script, 0x18000, 1, 20));
}

TEST(Responder, CountsMessagesNotPackets) {
  Script script;
  script.play(R"(
    recv 7 1000
    > SEND FIRST psn 0 a +256
    < ACKNOWLEDGE psn 0 ack msn 0
    > SEND MIDDLE psn 1 a +256
    < ACKNOWLEDGE psn 1 ack msn 0
    > SEND LAST psn 2 a +1
    < ACKNOWLEDGE psn 2 ack msn 1
    = 7 success 513
    > RDMA WRITE ONLY psn 3 a va 0x10100 +16
    < ACKNOWLEDGE psn 3 ack msn 2
    # a READ counts when its request is accepted
    > RDMA READ REQUEST psn 4 a va 0x10000 dma 8
    < RDMA READ RESPONSE ONLY psn 4 +8 ack msn 3
  )");
  EXPECT_TRUE(placed(script, 0x10100, 3, 16));
}

TEST(Responder, MsnWrapsAfterTwentyFourBits) {
  Script script;
  script.qp().resp.msn = 0xffffff;
  script.play(R"(
    > RDMA WRITE ONLY psn 0 a va 0x10000 +4
    < ACKNOWLEDGE psn 0 ack msn 0
  )");
}

TEST(Responder, PsnWrapsAfterTwentyFourBits) {
  ScriptOptions options;
  options.receive_psn = 0xfffffe;
  Script script(options);
  script.play(R"(
    recv 7 2000
    > SEND FIRST psn 16777214 +256
    > SEND MIDDLE psn 16777215 +256
    > SEND MIDDLE psn 0 +256
    > SEND LAST psn 1 a +5
    < ACKNOWLEDGE psn 1 ack msn 1
    = 7 success 773
    # now 16777215 is behind, not ahead
    > SEND ONLY psn 16777215 a +5
    < ACKNOWLEDGE psn 1 ack msn 1
  )");
}

TEST(Responder, NaksAGapOnceAndThenWaits) {
  Script script;
  script.play(R"(
    recv 7 1000
    recv 8 1000
    > SEND ONLY psn 1 a +10
    < ACKNOWLEDGE psn 0 nak(0) msn 0
    > SEND ONLY psn 2 a +10
    > SEND ONLY psn 3 a +10
    # in order again
    > SEND ONLY psn 0 a +10
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 10
    # a new gap is a new NAK
    > SEND ONLY psn 2 a +10
    < ACKNOWLEDGE psn 1 nak(0) msn 1
  )");
}

TEST(Responder, HalfOfTheNumberSpaceIsBehind) {
  Script script;
  script.play(R"(
    recv 7 1000
    # 8388608 = 2^23: the farthest one that counts as behind; a duplicate of what never was is acknowledged
    > SEND ONLY psn 8388608 a +10
    < ACKNOWLEDGE psn 16777215 ack msn 0
    > SEND ONLY psn 8388607 a +10
    < ACKNOWLEDGE psn 0 nak(0) msn 0
  )");
}

TEST(Responder, AcknowledgesDuplicatesWithoutExecutingThem) {
  Script script;
  script.play(R"(
    recv 7 1000
    recv 8 1000
    > SEND ONLY psn 0 a +10
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 10
    > SEND ONLY psn 0 a +10
    < ACKNOWLEDGE psn 0 ack msn 1
    > RDMA WRITE ONLY psn 1 a va 0x10000 +8
    < ACKNOWLEDGE psn 1 ack msn 2
  )");
  script.at(0x10000)[0] ^= 0xff;
  const std::uint8_t changed = script.at(0x10000)[0];
  script.play(R"(
    > RDMA WRITE ONLY psn 1 a va 0x10000 +8
    # the newest acknowledgement, whichever duplicate asks
    < ACKNOWLEDGE psn 1 ack msn 2
    > SEND ONLY psn 0 a +10
    < ACKNOWLEDGE psn 1 ack msn 2
  )");
  EXPECT_EQ(script.at(0x10000)[0], changed);
}

// Linux rxe completes an ATOMIC by any ACK that names its PSN, without the value.
TEST(Responder, AcknowledgesDuplicatesNoFurtherThanTheNextReadOrAtomic) {
  Script script;
  script.play(R"(
    > RDMA WRITE ONLY psn 0 a va 0x10000 +8
    < ACKNOWLEDGE psn 0 ack msn 1
    > RDMA WRITE ONLY psn 1 a va 0x10000 +8
    < ACKNOWLEDGE psn 1 ack msn 2
    > RDMA READ REQUEST psn 2 a va 0x10000 dma 8
    < RDMA READ RESPONSE ONLY psn 2 +8 ack msn 3
    > RDMA WRITE ONLY psn 3 a va 0x10000 +8
    < ACKNOWLEDGE psn 3 ack msn 4
    > RDMA READ REQUEST psn 4 a va 0x10000 dma 8
    < RDMA READ RESPONSE ONLY psn 4 +8 ack msn 5
    > RDMA WRITE ONLY psn 0 a va 0x10000 +8
    < ACKNOWLEDGE psn 1 ack msn 5
    > RDMA WRITE ONLY psn 3 a va 0x10000 +8
    < ACKNOWLEDGE psn 3 ack msn 5
  )");
}

TEST(Responder, RepliesReceiverNotReady) {
  Script script;
  script.play(R"(
    > SEND ONLY psn 0 a +10
    < ACKNOWLEDGE psn 0 rnr(12) msn 0
    # what follows in the window meets silence, not a sequence NAK
    > SEND ONLY psn 1 a +10
    > RDMA WRITE ONLY psn 2 a va 0x10000 +8
    recv 7 1000
    > SEND ONLY psn 0 a +10
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 10
  )");
}

TEST(Responder, OnlyTheLastPacketOfAWriteWithImmediateNeedsAReceive) {
  Script script;
  script.play(R"(
    > RDMA WRITE FIRST psn 0 va 0x10000 dma 300 +256
    > RDMA WRITE LAST WITH IMMEDIATE psn 1 a imm 0x99 +44
    < ACKNOWLEDGE psn 1 rnr(12) msn 0
    recv 7 0
    > RDMA WRITE LAST WITH IMMEDIATE psn 1 a imm 0x99 +44
    < ACKNOWLEDGE psn 1 ack msn 1
    = 7 success 300 imm 0x99
  )");
}

TEST(Responder, SolicitedAndImmediateReachTheCompletion) {
  Script script;
  script.play(R"(
    recv 7 100
    recv 8 100
    > SEND ONLY WITH IMMEDIATE psn 0 a s imm 0xdeadbeef +4
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 4 imm 0xdeadbeef s
    > SEND ONLY psn 1 a
    < ACKNOWLEDGE psn 1 ack msn 2
    = 8 success 0
  )");
}

// ---- lengths ----

struct LengthCase {
  const char* name;
  const char* script;
};
class WrongLengths : public ::testing::TestWithParam<LengthCase> {};

TEST_P(WrongLengths, AreAnInvalidRequest) {
  Script script;
  script.play(GetParam().script);
  EXPECT_EQ(script.qp().state, transport::QpState::kError);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongLengths,
    ::testing::Values(
        LengthCase{"FirstShorterThanTheMtu",
                   "recv 7 1000\n> SEND FIRST psn 0 +255\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request "
                   "error\n= 7 flushed"},
        LengthCase{"MiddleShorterThanTheMtu",
                   "recv 7 1000\n> SEND FIRST psn 0 +256\n> SEND MIDDLE psn 1 +4\n< ACKNOWLEDGE psn 1 nak(1) "
                   "msn 0\n! request error\n= 7 remote invalid request"},
        LengthCase{"OnlyLongerThanTheMtu",
                   "recv 7 1000\n> SEND ONLY psn 0 +257\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request "
                   "error\n= 7 flushed"},
        LengthCase{"LastLongerThanTheMtu",
                   "recv 7 1000\n> SEND FIRST psn 0 +256\n> SEND LAST psn 1 +260\n< ACKNOWLEDGE psn 1 nak(1) "
                   "msn 0\n! request error\n= 7 remote invalid request"},
        LengthCase{"WriteShorterThanItsDmaLength",
                   "> RDMA WRITE ONLY psn 0 a dma 20 +10\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error"},
        LengthCase{"WriteLongerThanItsDmaLength",
                   "> RDMA WRITE ONLY psn 0 a dma 5 +10\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error"},
        LengthCase{
            "WriteThatGoesOnBeyondItsDmaLength",
            "> RDMA WRITE FIRST psn 0 dma 256 +256\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error"},
        LengthCase{
            "ReadLongerThanAMessageMayBe",
            "> RDMA READ REQUEST psn 0 dma 2147483649\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error"}),
    [](const auto& suite) { return std::string(suite.param.name); });

// ---- opcode sequence ----

class WrongSequences : public ::testing::TestWithParam<LengthCase> {};
TEST_P(WrongSequences, AreAnInvalidRequest) {
  Script script;
  script.play(GetParam().script);
  EXPECT_EQ(script.qp().state, transport::QpState::kError);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongSequences,
    ::testing::Values(
        LengthCase{"MiddleWithoutFirst",
                   "recv 7 1000\n> SEND MIDDLE psn 0 +256\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! "
                   "request error\n= 7 flushed"},
        LengthCase{"LastWithoutFirst",
                   "> RDMA WRITE LAST psn 0 +10\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error"},
        LengthCase{"FirstInsideAMessage",
                   "recv 7 1000\n> SEND FIRST psn 0 +256\n> SEND FIRST psn 1 +256\n< "
                   "ACKNOWLEDGE psn 1 nak(1) msn 0\n! request error\n= 7 remote invalid request"},
        LengthCase{"OnlyInsideAMessage",
                   "recv 7 1000\n> SEND FIRST psn 0 +256\n> SEND ONLY psn 1 +2\n< ACKNOWLEDGE "
                   "psn 1 nak(1) msn 0\n! request error\n= 7 remote invalid request"},
        LengthCase{"WriteInsideASend",
                   "recv 7 1000\n> SEND FIRST psn 0 +256\n> RDMA WRITE LAST psn 1 +2\n< "
                   "ACKNOWLEDGE psn 1 nak(1) msn 0\n! request error\n= 7 remote invalid request"},
        LengthCase{"ReadInsideAWrite",
                   "> RDMA WRITE FIRST psn 0 dma 300 +256\n> RDMA READ REQUEST psn 1 dma 8\n< "
                   "ACKNOWLEDGE psn 1 nak(1) msn 0\n! request error"},
        LengthCase{"AtomicInsideASend",
                   "recv 7 1000\n> SEND FIRST psn 0 +256\n> FETCH ADD psn 1\n< ACKNOWLEDGE psn "
                   "1 nak(1) msn 0\n! request error\n= 7 remote invalid request"}),
    [](const auto& suite) { return std::string(suite.param.name); });

TEST(Responder, IsSilentOnceItHasRefused) {
  Script script;
  script.play(R"(
    > RDMA WRITE ONLY psn 0 a key bad +10
    < ACKNOWLEDGE psn 0 nak(2) msn 0
    ! access error
    > RDMA WRITE ONLY psn 0 a key good +10
    > RDMA READ REQUEST psn 1 dma 8
    > SEND ONLY psn 0 a +1
  )");
}

TEST(Responder, ChecksKeysAndRights) {
  for (const char* key : {"bad", "foreign", "readonly", "0"}) {
    Script script;
    script.play("> RDMA WRITE ONLY psn 0 a key " + std::string(key) +
                " +10\n< ACKNOWLEDGE psn 0 nak(2) msn 0\n! access error\n");
  }
  Script reads;
  reads.play(
      "> RDMA READ REQUEST psn 0 key readonly dma 16\n< RDMA READ RESPONSE ONLY psn 0 +16 ack msn 1\n");
}

TEST(Responder, ChecksBoundsToTheOctet) {
  Script script;
  script.play(R"(
    > RDMA WRITE ONLY psn 0 a va 0x1fff0 +16
    < ACKNOWLEDGE psn 0 ack msn 1
    > RDMA WRITE ONLY psn 1 a va 0x1fff0 +17
    < ACKNOWLEDGE psn 1 nak(2) msn 1
    ! access error
  )");
  Script below;
  below.play("> RDMA READ REQUEST psn 0 va 0xffff dma 2\n< ACKNOWLEDGE psn 0 nak(2) msn 0\n! access error\n");
  Script wrap;
  wrap.play(
      "> RDMA READ REQUEST psn 0 va 0xffffffffffffffff dma 2\n< ACKNOWLEDGE psn 0 nak(2) msn 0\n! access "
      "error\n");
}

TEST(Responder, ChecksTheWholeWriteBeforeItsFirstOctet) {
  Script script;
  const std::uint8_t before = *script.at(0x1ff00);
  script.play(R"(
    # the first packet would fit, the message does not
    > RDMA WRITE FIRST psn 0 va 0x1ff00 dma 300 +256
    < ACKNOWLEDGE psn 0 nak(2) msn 0
    ! access error
  )");
  EXPECT_EQ(*script.at(0x1ff00), before);
}

TEST(Responder, ZeroLengthDoesNotLookAtTheKey) {
  Script script;
  script.play(R"(
    > RDMA WRITE ONLY psn 0 a key bad va 0
    < ACKNOWLEDGE psn 0 ack msn 1
    > RDMA READ REQUEST psn 1 key bad va 0 dma 0
    < RDMA READ RESPONSE ONLY psn 1 ack msn 2
  )");
}

TEST(Responder, RefusesWhatTheQpDoesNotAllow) {
  ScriptOptions options;
  options.access = objects::kLocalWrite;
  for (const char* request : {"RDMA WRITE ONLY psn 0 a +8", "RDMA READ REQUEST psn 0 dma 8",
                              "FETCH ADD psn 0 swap 1", "ATOMIC WRITE psn 0 +8"}) {
    Script script(options);
    script.play("> " + std::string(request) + "\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error\n");
  }
}

// ---- READ ----

TEST(Responder, CutsReadResponsesAtTheMtu) {
  Script script;
  script.play(R"(
    > RDMA READ REQUEST psn 0 va 0x10000 dma 700
    < RDMA READ RESPONSE FIRST psn 0 +256 ack msn 1
    < RDMA READ RESPONSE MIDDLE psn 1 +256
    < RDMA READ RESPONSE LAST psn 2 +188 ack msn 1
    # the request took three PSNs
    > RDMA READ REQUEST psn 3 va 0x10000 dma 512
    < RDMA READ RESPONSE FIRST psn 3 +256 ack msn 2
    < RDMA READ RESPONSE LAST psn 4 +256 ack msn 2
    > RDMA READ REQUEST psn 5 dma 256
    < RDMA READ RESPONSE ONLY psn 5 +256 ack msn 3
  )");
}

TEST(Responder, ReplaysAReadFromAnyOfItsPackets) {
  Script script;
  script.play(R"(
    > RDMA READ REQUEST psn 0 va 0x10000 dma 700
    < RDMA READ RESPONSE FIRST psn 0 +256 ack msn 1
    < RDMA READ RESPONSE MIDDLE psn 1 +256
    < RDMA READ RESPONSE LAST psn 2 +188 ack msn 1
    # all of it
    > RDMA READ REQUEST psn 0 va 0x10000 dma 700
    < RDMA READ RESPONSE FIRST psn 0 +256 ack msn 1
    < RDMA READ RESPONSE MIDDLE psn 1 +256
    < RDMA READ RESPONSE LAST psn 2 +188 ack msn 1
    # the rest
    > RDMA READ REQUEST psn 1 va 0x10100 dma 444
    < RDMA READ RESPONSE FIRST psn 1 +256 ack msn 1
    < RDMA READ RESPONSE LAST psn 2 +188 ack msn 1
    # the middle
    > RDMA READ REQUEST psn 1 va 0x10100 dma 256
    < RDMA READ RESPONSE ONLY psn 1 +256 ack msn 1
    # a duplicate that is no part of the first one is dropped
    > RDMA READ REQUEST psn 1 va 0x10100 dma 445
    > RDMA READ REQUEST psn 1 va 0x10000 dma 256
    > RDMA READ REQUEST psn 0 va 0x10000 dma 701
    > RDMA READ REQUEST psn 0 va 0x10000 dma 700 key readonly
  )");
}

// The peer asks for what it misses, packet by packet.
TEST(Responder, ReplaysSinglePacketsOfAReadAlone) {
  Script script;
  script.play(R"(
    > RDMA READ REQUEST psn 0 va 0x10000 dma 1280
    < RDMA READ RESPONSE FIRST psn 0 +256 ack msn 1
    < RDMA READ RESPONSE MIDDLE psn 1 +256
    < RDMA READ RESPONSE MIDDLE psn 2 +256
    < RDMA READ RESPONSE MIDDLE psn 3 +256
    < RDMA READ RESPONSE LAST psn 4 +256 ack msn 1
  )");
  script.link_has_room = false;
  script.play(R"(
    > RDMA READ REQUEST psn 3 va 0x10300 dma 256
    > RDMA READ REQUEST psn 1 va 0x10100 dma 256
  )");
  script.link_has_room = true;
  script.play(R"(
    @ 1us
    < RDMA READ RESPONSE ONLY psn 1 +256 ack msn 1
    < RDMA READ RESPONSE ONLY psn 3 +256 ack msn 1
  )");
}

TEST(Responder, ForgetsReadsBeyondWhatItPromisedToRemember) {
  ScriptOptions options;
  options.max_destination_reads = 2;
  Script script(options);
  script.play(R"(
    > RDMA READ REQUEST psn 0 dma 8
    < RDMA READ RESPONSE ONLY psn 0 +8 ack msn 1
    > RDMA READ REQUEST psn 1 dma 8
    < RDMA READ RESPONSE ONLY psn 1 +8 ack msn 2
    > RDMA READ REQUEST psn 2 dma 8
    < RDMA READ RESPONSE ONLY psn 2 +8 ack msn 3
    > RDMA READ REQUEST psn 0 dma 8
    > RDMA READ REQUEST psn 1 dma 8
    < RDMA READ RESPONSE ONLY psn 1 +8 ack msn 2
  )");
}

TEST(Responder, ReadsWhatIsThereNowWhenItReplays) {
  Script script;
  script.play("> RDMA READ REQUEST psn 0 dma 8\n< RDMA READ RESPONSE ONLY psn 0 +8 ack msn 1\n");
  ASSERT_TRUE(script.counters().read_replays == 0);
  script.play("> RDMA READ REQUEST psn 0 dma 8\n< RDMA READ RESPONSE ONLY psn 0 +8 ack msn 1\n");
  EXPECT_EQ(script.counters().read_replays, 1u);
}

// A late copy of the request: its requester has the answer and ignores the NAK.
TEST(Responder, SurvivesACopyOfAReadWhoseMemoryHasGone) {
  Script script;
  script.play("> RDMA READ REQUEST psn 0 dma 8\n< RDMA READ RESPONSE ONLY psn 0 +8 ack msn 1\n");
  script.close_memory();
  script.play(R"(
    > RDMA READ REQUEST psn 0 dma 8
    < ACKNOWLEDGE psn 0 nak(2) msn 1
    recv 7 100
    > SEND ONLY psn 1 a +10
    < ACKNOWLEDGE psn 1 ack msn 2
    = 7 success 10
  )");
  EXPECT_EQ(script.qp().state, transport::QpState::kReadyToSend);
}

// ---- ATOMIC ----

TEST(Responder, ExecutesAtomicsOnceAndReplaysTheirResults) {
  Script script;
  store_native<std::uint64_t>(script.at(0x10000), 100);
  script.play(R"(
    > FETCH ADD psn 0 va 0x10000 swap 5
    < ATOMIC ACKNOWLEDGE psn 0 ack msn 1 original 0x64
    > FETCH ADD psn 0 va 0x10000 swap 5
    < ATOMIC ACKNOWLEDGE psn 0 ack msn 1 original 0x64
    > COMPARE SWAP psn 1 va 0x10000 compare 105 swap 7
    < ATOMIC ACKNOWLEDGE psn 1 ack msn 2 original 0x69
    > COMPARE SWAP psn 2 va 0x10000 compare 105 swap 9
    < ATOMIC ACKNOWLEDGE psn 2 ack msn 3 original 0x7
    > COMPARE SWAP psn 1 va 0x10000 compare 105 swap 7
    < ATOMIC ACKNOWLEDGE psn 1 ack msn 2 original 0x69
  )");
  EXPECT_EQ(load_native<std::uint64_t>(script.at(0x10000)), 7u);
}

TEST(Responder, DropsADuplicateAtomicThatItDoesNotRemember) {
  ScriptOptions options;
  options.max_destination_reads = 1;
  Script script(options);
  store_native<std::uint64_t>(script.at(0x10000), 0);
  script.play(R"(
    > FETCH ADD psn 0 swap 1
    < ATOMIC ACKNOWLEDGE psn 0 ack msn 1 original 0x0
    > FETCH ADD psn 1 swap 1
    < ATOMIC ACKNOWLEDGE psn 1 ack msn 2 original 0x1
    > FETCH ADD psn 0 swap 1
    # nor does it answer a READ in the atomic's place
    > RDMA READ REQUEST psn 1 dma 8
  )");
  EXPECT_EQ(load_native<std::uint64_t>(script.at(0x10000)), 2u);
}

TEST(Responder, RefusesAMisalignedAtomic) {
  for (const char* request : {"FETCH ADD psn 0 va 0x10004 swap 1", "COMPARE SWAP psn 0 va 0x10001",
                              "ATOMIC WRITE psn 0 va 0x10002 +8"}) {
    Script script;
    script.play("> " + std::string(request) + "\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error\n");
  }
}

TEST(Responder, RefusesAnAtomicWithoutTheRight) {
  Script script;
  script.play("> FETCH ADD psn 0 key readonly swap 1\n< ACKNOWLEDGE psn 0 nak(2) msn 0\n! access error\n");
}

TEST(Responder, WritesAtomicallyAndAnswersLikeARead) {
  Script script;
  script.play(R"(
    > ATOMIC WRITE psn 0 va 0x10008 +8
    < RDMA READ RESPONSE ONLY psn 0 ack msn 1
  )");
  EXPECT_TRUE(placed(script, 0x10008, 0, 8));
  *script.at(0x10008) ^= 1;
  const std::uint8_t changed = *script.at(0x10008);
  script.play(R"(
    > ATOMIC WRITE psn 0 va 0x10008 +8
    < RDMA READ RESPONSE ONLY psn 0 ack msn 1
  )");
  EXPECT_EQ(*script.at(0x10008), changed);
}

TEST(Responder, FlushesWhatItIsAllowedTo) {
  Script script;
  script.play(R"(
    > FLUSH psn 0 feth 1 va 0x10000 dma 64
    < RDMA READ RESPONSE ONLY psn 0 ack msn 1
    # the whole region
    > FLUSH psn 1 feth 17 va 0 dma 0
    < RDMA READ RESPONSE ONLY psn 1 ack msn 2
    # persistence is a right of its own
    > FLUSH psn 2 feth 2 va 0x10000 dma 64
    < ACKNOWLEDGE psn 2 nak(2) msn 2
    ! access error
  )");
}

// ---- answers in order ----

TEST(Responder, AnswersARequestBehindAReadAfterTheRead) {
  Script script;
  script.play(R"(
    > RDMA READ REQUEST psn 0 dma 300
    < RDMA READ RESPONSE FIRST psn 0 +256 ack msn 1
    < RDMA READ RESPONSE LAST psn 1 +44 ack msn 1
    > RDMA WRITE ONLY psn 2 a +8
    < ACKNOWLEDGE psn 2 ack msn 2
  )");
}

TEST(Responder, RefusesMoreReadsThanItTakes) {
  ScriptOptions options;
  options.max_destination_reads = 0;
  Script script(options);
  script.play("> RDMA READ REQUEST psn 0 dma 8\n< ACKNOWLEDGE psn 0 nak(1) msn 0\n! request error\n");
}

TEST(Responder, FailsTheReceiveThatIsTooSmall) {
  Script script;
  script.play(R"(
    recv 7 300
    recv 8 300
    > SEND FIRST psn 0 +256
    > SEND LAST psn 1 a +45
    < ACKNOWLEDGE psn 1 nak(1) msn 0
    ! request error
    = 7 local length error
    = 8 flushed
  )");
}

// Class J: the SEND is acknowledged, its invalidation is this side's error, and the QP is silent afterwards.
TEST(Responder, InvalidatesOnlyWindows) {
  Script script;
  script.play(R"(
    recv 7 100
    recv 8 100
    > SEND ONLY WITH INVALIDATE psn 0 a key good +4
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 remote invalid request
    = 8 flushed
    > SEND ONLY psn 1 a +4
  )");
}

// IBTA 11.6.2: a receive request ends with a local access error if its WRITE with immediate is refused.
TEST(Responder, FailsTheReceiveOfARefusedWriteWithImmediate) {
  for (const char* key : {"bad", "foreign", "readonly"}) {
    Script script;
    script.play(std::string(R"(
      recv 7 100
      recv 8 100
      > RDMA WRITE ONLY WITH IMMEDIATE psn 0 a key )") +
                key + R"( +8
      < ACKNOWLEDGE psn 0 nak(2) msn 0
      ! access error
      = 7 local access error
      = 8 flushed
    )");
  }
}

// The region is deregistered while the message arrives. Only its last packet shows that there is an
// immediate.
TEST(Responder, FailsTheReceiveOfAWriteWhoseRegionGoes) {
  Script script;
  script.play("recv 7 100\n> RDMA WRITE FIRST psn 0 dma 300 +256");
  script.close_memory();
  script.play(R"(
    > RDMA WRITE LAST WITH IMMEDIATE psn 1 a +44
    < ACKNOWLEDGE psn 1 nak(2) msn 0
    ! access error
    = 7 local access error
  )");
}

TEST(Responder, AWriteWithImmediateWaitsForAReceiveBeforeItsKeyIsLookedAt) {
  Script script;
  script.play(R"(
    > RDMA WRITE ONLY WITH IMMEDIATE psn 0 a key bad +8
    < ACKNOWLEDGE psn 0 rnr(12) msn 0
  )");
}

// ---- unrelated senders ----

TEST(Responder, DropsWhatIsNotMeantForIt) {
  Script script;
  script.play(R"(
    recv 7 100
    > SEND ONLY psn 0 a qpn 99 +4
    > SEND ONLY psn 0 a pkey 0x1234 +4
    > SEND ONLY psn 0 a from 9 +4
    > SEND ONLY psn 0 a to 9 +4
    > SEND ONLY psn 0 a party 3 +4
    # the full and the limited member of the default partition are one
    > SEND ONLY psn 0 a pkey 0x7fff mig +4
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 4
  )");
  EXPECT_EQ(script.counters().dropped_no_qp, 1u);
  EXPECT_EQ(script.counters().dropped_pkey, 1u);
  EXPECT_EQ(script.counters().dropped_wrong_source, 1u);
  EXPECT_EQ(script.counters().dropped_wrong_destination, 1u);
  EXPECT_EQ(script.counters().dropped_wrong_party, 1u);
}

TEST(Responder, HearsOnePortOnceThePeerHasProvedIt) {
  Script script;
  script.qp().path.one_source_port = true;
  script.play(R"(
    recv 7 100
    recv 8 100
    # a guess at the sequence number proves nothing
    > SEND ONLY psn 5 a port 50000 +4
    < ACKNOWLEDGE psn 0 nak(0) msn 0
    > SEND ONLY psn 0 a port 60000 +4
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 4
    > SEND ONLY psn 1 a port 50000 +4
    > SEND ONLY psn 1 a port 60000 +4
    < ACKNOWLEDGE psn 1 ack msn 2
    = 8 success 4
  )");
  EXPECT_EQ(script.counters().dropped_wrong_port, 1u);
}

TEST(Responder, LeavesThePortOfOtherMakesAlone) {
  Script script;
  script.play(R"(
    recv 7 100
    recv 8 100
    > SEND ONLY psn 0 a port 60000 +4
    < ACKNOWLEDGE psn 0 ack msn 1
    = 7 success 4
    > SEND ONLY psn 1 a port 50000 +4
    < ACKNOWLEDGE psn 1 ack msn 2
    = 8 success 4
  )");
}

// One notification halves the window, so a sender of forged ones could stop a QP.
TEST(Responder, ObeysNoCongestionNotificationOfAStranger) {
  Script script;
  script.play(R"(
    > CNP psn 0 from 9 +16
    > CNP psn 0 to 9 +16
    > CNP psn 0 party 3 +16
    > CNP psn 0 pkey 0x1234 +16
  )");
  EXPECT_EQ(script.counters().cnps_received, 0u);
  script.play("> CNP psn 0 +16");
  EXPECT_EQ(script.counters().cnps_received, 1u);
}

TEST(Responder, AnswersCongestionWithANotificationNowAndThen) {
  Script script;
  script.play(R"(
    > RDMA WRITE ONLY psn 0 ecn +8
    < CNP psn 0 +16
    > RDMA WRITE ONLY psn 1 ecn +8
    @ 1ms
    > RDMA WRITE ONLY psn 2 ecn +8
    < CNP psn 0 +16
  )");
}

}  // namespace rrdma::conformance::responder_test
