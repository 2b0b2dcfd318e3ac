// The requester and completer of a reliable connection, clause by clause. MTU 256; the first PSN is 1000.
#include <gtest/gtest.h>

#include "script.h"
#include "sim/pattern.h"

namespace rrdma::conformance::requester_test {

TEST(Requester, CutsMessagesAtTheMtu) {
  Script script;
  script.play(R"(
    post send 1 0
    < SEND ONLY psn 1000 a
    post send 2 256
    < SEND ONLY psn 1001 a +256
    post send 3 600 s
    < SEND FIRST psn 1002 +256
    < SEND MIDDLE psn 1003 +256
    < SEND LAST psn 1004 a s +88
    post write 4 257
    < RDMA WRITE FIRST psn 1005 +256 va 0x5000 dma 257
    < RDMA WRITE LAST psn 1006 a +1
    post write_imm 5 1 imm 0x77
    < RDMA WRITE ONLY WITH IMMEDIATE psn 1007 a +1 va 0x5000 dma 1 imm 0x77
    # one ACK for all of them
    > ACKNOWLEDGE psn 1007 ack msn 5
    = 1 success 0
    = 2 success 256
    = 3 success 600
    = 4 success 257
    = 5 success 1
  )");
}

TEST(Requester, CompletesInOrderWhatAnAckCovers) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    post send 3 10
    < SEND ONLY psn 1002 a +10
    > ACKNOWLEDGE psn 1001 ack msn 2
    = 1 success 10
    = 2 success 10
    # again, and an older one: no effect
    > ACKNOWLEDGE psn 1001 ack msn 2
    > ACKNOWLEDGE psn 1000 ack msn 1
    > ACKNOWLEDGE psn 1002 ack msn 3
    = 3 success 10
  )");
}

TEST(Requester, IgnoresAnswersToWhatItNeverSent) {
  Script script;
  script.play(R"(
    > ACKNOWLEDGE psn 1000 ack msn 1
    > ACKNOWLEDGE psn 999 nak(2) msn 1
    post send 1 10
    < SEND ONLY psn 1000 a +10
    > ACKNOWLEDGE psn 1001 ack msn 2
    > ACKNOWLEDGE psn 5000 nak(0) msn 2
    > ATOMIC ACKNOWLEDGE psn 1000 ack msn 1 original 5
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +8
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
  )");
  EXPECT_GE(script.counters().dropped_bogus_ack, 2u);
}

TEST(Requester, PsnAndItsComparisonsWrap) {
  ScriptOptions options;
  options.send_psn = 0xffffff;
  Script script(options);
  script.play(R"(
    post send 1 300
    < SEND FIRST psn 16777215 +256
    < SEND LAST psn 0 a +44
    post send 2 10
    < SEND ONLY psn 1 a +10
    > ACKNOWLEDGE psn 0 ack msn 1
    = 1 success 300
    > ACKNOWLEDGE psn 16777215 ack msn 1
    > ACKNOWLEDGE psn 1 ack msn 2
    = 2 success 10
  )");
}

// The transport as it was before it kept a FlightLog, as with --strict.
ScriptOptions strict() {
  ScriptOptions options;
  options.engine.strict = true;
  return options;
}

TEST(Requester, GoesBackToThePsnThatTheNakNames) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post send 2 600
    < SEND FIRST psn 1001 +256
    < SEND MIDDLE psn 1002 +256
    < SEND LAST psn 1003 a +88
    # it acknowledges everything before it
    > ACKNOWLEDGE psn 1002 nak(0) msn 1
    = 1 success 10
    # whether it arrives this time is worth an answer
    < SEND MIDDLE psn 1002 a +256
    < SEND LAST psn 1003 a +88
    > ACKNOWLEDGE psn 1003 ack msn 2
    = 2 success 600
  )");
  EXPECT_EQ(script.counters().packets_resent, 2u);
}

struct NakCase {
  const char* code;
  const char* status;
};
class FatalNaks : public ::testing::TestWithParam<NakCase> {};
TEST_P(FatalNaks, EndTheRequestAndFlushTheRest) {
  Script script;
  script.play(R"(
    recv 9 100
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    post send 3 10
    < SEND ONLY psn 1002 a +10
  )");
  script.play("> ACKNOWLEDGE psn 1001 nak(" + std::string(GetParam().code) + ") msn 1\n= 1 success 10\n= 2 " +
              GetParam().status + "\n= 3 flushed\n= 9 flushed\n");
  EXPECT_EQ(script.qp().state, transport::QpState::kError);
}
INSTANTIATE_TEST_SUITE_P(All, FatalNaks,
                         ::testing::Values(NakCase{"1", "remote invalid request"},
                                           NakCase{"2", "remote access error"},
                                           NakCase{"3", "remote operation error"}));

TEST(Requester, WaitsAsLongAsTheRnrNakSays) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    # code 14: 1.28 ms
    > ACKNOWLEDGE psn 1000 rnr(14) msn 0
    @ 1270us
    # nor may anything new go out meanwhile
    post send 3 10
    @ 20us
    < SEND ONLY psn 1000 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1002 a +10
    > ACKNOWLEDGE psn 1002 ack msn 3
    = 1 success 10
    = 2 success 10
    = 3 success 10
  )");
}

TEST(Requester, AnRnrNakAcknowledgesWhatIsBeforeIt) {
  Script script;
  script.play(R"(
    post write 1 10
    < RDMA WRITE ONLY psn 1000 a +10 va 0x5000 dma 10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 rnr(1) msn 1
    = 1 success 10
    @ 20us
    < SEND ONLY psn 1001 a +10
  )");
}

TEST(Requester, CountsRnrRetriesFromTheLastProgress) {
  ScriptOptions options;
  options.rnr_retry = 2;
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    > ACKNOWLEDGE psn 1000 rnr(1) msn 0
    @ 10us
    < SEND ONLY psn 1000 a +10
    > ACKNOWLEDGE psn 1000 rnr(1) msn 0
    @ 10us
    < SEND ONLY psn 1000 a +10
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 rnr(1) msn 1
    @ 10us
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 rnr(1) msn 1
    @ 10us
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 rnr(1) msn 1
    = 2 RNR retry counter exceeded
  )");
}

TEST(Requester, RnrRetrySevenIsForEver) {
  Script script;
  script.play("post send 1 10\n< SEND ONLY psn 1000 a +10\n");
  for (int i = 0; i < 100; ++i)
    script.play("> ACKNOWLEDGE psn 1000 rnr(1) msn 0\n@ 10us\n< SEND ONLY psn 1000 a +10\n");
}

// Linux rxe also answers the packets behind the one that was not ready with a sequence NAK.
TEST(Requester, ASequenceNakInTheWakeOfAnRnrNakIsNoFailedAttempt) {
  ScriptOptions options;
  options.retry_count = 2;
  Script script(options);
  // Establish a round trip of 1 ms.
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 1ms
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    post send 3 10
    < SEND ONLY psn 1002 a +10
  )");
  for (int i = 0; i < 20; ++i) {
    script.play(R"(
      # code 14: 1.28 ms; the wait is not cut short
      > ACKNOWLEDGE psn 1001 rnr(14) msn 1
      > ACKNOWLEDGE psn 1001 nak(0) msn 1
      @ 1200us
      @ 100us
      < SEND ONLY psn 1001 a +10
      < SEND ONLY psn 1002 a +10
      # nor is what was just repeated sent once more
      @ 100us
      > ACKNOWLEDGE psn 1001 nak(0) msn 1
    )");
  }
  script.play(R"(
    > ACKNOWLEDGE psn 1002 ack msn 3
    = 2 success 10
    = 3 success 10
  )");
}

TEST(Requester, AnRnrNakShowsThatThePathWorks) {
  ScriptOptions options;
  options.retry_count = 2;
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post send 2 10
    < SEND ONLY psn 1001 a +10
  )");
  for (int i = 0; i < 20; ++i) {
    script.play(R"(
      > ACKNOWLEDGE psn 1000 rnr(1) msn 0
      @ 10us
      < SEND ONLY psn 1000 a +10
      < SEND ONLY psn 1001 a +10
      > ACKNOWLEDGE psn 1000 nak(0) msn 0
      < SEND ONLY psn 1000 a +10
      < SEND ONLY psn 1001 a +10
    )");
  }
  EXPECT_NE(script.qp().state, transport::QpState::kError);
}

TEST(Requester, StaysPatientWithASlowPeerUntilItHasMeasuredIt) {
  ScriptOptions options = strict();
  options.engine.early_retransmit_min = milliseconds(8);
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 1ms
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    @ 8ms
    < SEND ONLY psn 1001 a +10
    @ 4ms
    # of which of the two?
    > ACKNOWLEDGE psn 1001 ack msn 2
    = 2 success 10
    post send 3 10
    < SEND ONLY psn 1002 a +10
    @ 12ms
    > ACKNOWLEDGE psn 1002 ack msn 3
    = 3 success 10
  )");
  EXPECT_EQ(script.counters().early_retransmits, 1u);
}

TEST(Requester, TriesAgainAfterSilenceAndThenGivesUp) {
  ScriptOptions options;
  options.retry_count = 2;
  options.engine.probe_unmeasured = seconds(100);
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 66ms
    @ 2ms
    < SEND ONLY psn 1000 a +10
    @ 68ms
    < SEND ONLY psn 1000 a +10
    @ 68ms
    = 1 transport retry counter exceeded
  )");
}

TEST(Requester, ProgressGivesTheRetriesBack) {
  ScriptOptions options;
  options.retry_count = 1;
  options.engine.probe_unmeasured = options.engine.probe_min = seconds(100);
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    @ 68ms
    < SEND ONLY psn 1000 a +10
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    @ 68ms
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 ack msn 2
    = 2 success 10
  )");
}

// ---- READ ----

TEST(Requester, ReadTakesAsManyPsnsAsItsResponse) {
  Script script;
  script.play(R"(
    post read 1 700
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 700
    post send 2 10
    < SEND ONLY psn 1003 a +10
    > RDMA READ RESPONSE FIRST psn 1000 ack msn 1 +256
    > RDMA READ RESPONSE MIDDLE psn 1001 +256
    > RDMA READ RESPONSE LAST psn 1002 ack msn 1 +188
    = 1 success 700
    > ACKNOWLEDGE psn 1003 ack msn 2
    = 2 success 10
  )");
}

TEST(Requester, AnAckBeyondAReadMeansThatItsResponseWasLost) {
  Script script;
  script.play(R"(
    post read 1 8
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    post send 2 10
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 ack msn 2
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +8
    = 1 success 8
    = 2 success 10
  )");
  EXPECT_EQ(script.counters().implied_naks, 1u);
}

TEST(Requester, AnAckBeyondAReadGoesBackToItWhenStrict) {
  Script script(strict());
  script.play(R"(
    post read 1 8
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    post send 2 10
    < SEND ONLY psn 1001 a +10
    > ACKNOWLEDGE psn 1001 ack msn 2
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    < SEND ONLY psn 1001 a +10
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +8
    = 1 success 8
    > ACKNOWLEDGE psn 1001 ack msn 2
    = 2 success 10
  )");
  EXPECT_EQ(script.counters().implied_naks, 1u);
}

TEST(Requester, ANakBeyondAReadMeansThatItsResponseWasLost) {
  Script script;
  script.play(R"(
    post read 1 8
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    post send 2 10
    < SEND ONLY psn 1001 a +10
    post send 3 10
    < SEND ONLY psn 1002 a +10
    > ACKNOWLEDGE psn 1001 nak(0) msn 1
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1002 a +10
  )");
}

TEST(Requester, AsksForWhatIsMissingOfARead) {
  Script script;
  script.play(R"(
    post read 1 700
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 700
    > RDMA READ RESPONSE FIRST psn 1000 ack msn 1 +256
    # 1001 is missing
    > RDMA READ RESPONSE LAST psn 1002 ack msn 1 +188
    < RDMA READ REQUEST psn 1001 a va 0x5100 dma 256
    # a copy of what is here already
    > RDMA READ RESPONSE LAST psn 1002 ack msn 1 +188
    > RDMA READ RESPONSE ONLY psn 1001 ack msn 1 +256
    = 1 success 700
  )");
}

// A request without a sign of arrival is repeated unchanged: the peer would take a shorter one for a new
// request.
TEST(Requester, RepeatsAWholeReadWhenItsRequestIsLost) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post read 2 700
    < RDMA READ REQUEST psn 1001 a va 0x5000 dma 700
    post send 3 10
    < SEND ONLY psn 1004 a +10
    > ACKNOWLEDGE psn 1001 nak(0) msn 1
    = 1 success 10
    < RDMA READ REQUEST psn 1001 a va 0x5000 dma 700
    < SEND ONLY psn 1004 a +10
  )");
}

// After silence, one packet asks whether the others have arrived. It spends no retry.
TEST(Requester, AsksASilentPeerWithTheOldestPacket) {
  ScriptOptions options;
  options.retry_count = 0;
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 50us
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 600
    < SEND FIRST psn 1001 +256
    < SEND MIDDLE psn 1002 +256
    < SEND LAST psn 1003 a +88
    @ 400us
    @ 150us
    < SEND FIRST psn 1001 a +256
    # all had arrived, the ACK was lost
    @ 50us
    > ACKNOWLEDGE psn 1003 ack msn 2
    = 2 success 600
    post send 3 600
    < SEND FIRST psn 1004 +256
    < SEND MIDDLE psn 1005 +256
    < SEND LAST psn 1006 a +88
    @ 1200us
    < SEND FIRST psn 1004 a +256
    # the answer shows a hole: now the rest is sent again
    @ 50us
    > ACKNOWLEDGE psn 1004 ack msn 2
    < SEND MIDDLE psn 1005 a +256
    < SEND LAST psn 1006 a +88
    @ 50us
    > ACKNOWLEDGE psn 1006 ack msn 3
    = 3 success 600
  )");
  EXPECT_EQ(script.counters().probes_sent, 2u);
  EXPECT_EQ(script.counters().packets_resent, 4u);
}

// The only answer to a probe is one response of a READ. Everything else requested before the silence is lost,
// too, and is requested again at once, not one by one after a silence each.
TEST(Requester, AsksForAllThatASilentPeerStillOwesOfReads) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 50us
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post read 2 1024
    < RDMA READ REQUEST psn 1001 a va 0x5000 dma 1024
    post read 3 512
    < RDMA READ REQUEST psn 1005 a va 0x5000 dma 512
    @ 50us
    > RDMA READ RESPONSE FIRST psn 1001 ack msn 2 +256
    # 1002 is missing
    > RDMA READ RESPONSE MIDDLE psn 1003 +256
    < RDMA READ REQUEST psn 1002 a va 0x5100 dma 256
    > RDMA READ RESPONSE LAST psn 1004 ack msn 2 +256
    # so are the answer to that, and all of the second one
    @ 550us
    < RDMA READ REQUEST psn 1002 a va 0x5100 dma 256
    @ 50us
    > RDMA READ RESPONSE ONLY psn 1002 ack msn 2 +256
    = 2 success 1024
    < RDMA READ REQUEST psn 1005 a va 0x5000 dma 512
    @ 50us
    > RDMA READ RESPONSE FIRST psn 1005 ack msn 3 +256
    > RDMA READ RESPONSE LAST psn 1006 ack msn 3 +256
    = 3 success 512
  )");
  EXPECT_EQ(script.counters().probes_sent, 1u);
}

// The probe itself may be lost. It is repeated less and less often, with one packet if the peer is not RRDMA.
TEST(Requester, AsksASilentPeerLessAndLessOften) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 50us
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    post send 3 10
    < SEND ONLY psn 1002 a +10
    @ 550us
    < SEND ONLY psn 1001 a +10
    @ 800us
    @ 250us
    < SEND ONLY psn 1001 a +10
    @ 1900us
    @ 200us
    < SEND ONLY psn 1001 a +10
    @ 50us
    > ACKNOWLEDGE psn 1002 ack msn 3
    = 2 success 10
    = 3 success 10
  )");
  EXPECT_EQ(script.counters().ack_timeouts, 0u);
}

// A burst of losses may swallow several probes: an RRDMA peer is probed with twice as many packets each time.
TEST(Requester, AsksASilentPeerOfItsKindWithMoreAndMorePackets) {
  ScriptOptions options;
  options.peer_features = objects::kFeatureArrivals;
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 50us
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 600
    < SEND FIRST psn 1001 +256
    < SEND MIDDLE psn 1002 +256
    < SEND LAST psn 1003 a +88
    post read 3 512
    < RDMA READ REQUEST psn 1004 a va 0x5000 dma 512
    @ 550us
    < SEND FIRST psn 1001 a +256
    @ 500us
    < SEND FIRST psn 1001 a +256
    < SEND MIDDLE psn 1002 a +256
    @ 500us
    < SEND FIRST psn 1001 a +256
    < SEND MIDDLE psn 1002 +256
    < SEND LAST psn 1003 a +88
    < RDMA READ REQUEST psn 1004 a va 0x5000 dma 512
    @ 50us
    > ACKNOWLEDGE psn 1003 ack msn 2
    = 2 success 600
    > RDMA READ RESPONSE FIRST psn 1004 ack msn 3 +256
    > RDMA READ RESPONSE LAST psn 1005 ack msn 3 +256
    = 3 success 512
  )");
  EXPECT_EQ(script.counters().probes_sent, 1u + 2u + 4u);
}

// If it owes only one packet, that one is sent several times. The waiting time grows only once their number
// stops growing.
TEST(Requester, AsksASilentPeerOfItsKindWithCopiesOfTheOnlyPacket) {
  ScriptOptions options;
  options.peer_features = objects::kFeatureArrivals;
  Script script(options);
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    @ 50us
    > ACKNOWLEDGE psn 1000 ack msn 1
    = 1 success 10
    post send 2 10
    < SEND ONLY psn 1001 a +10
    @ 550us
    < SEND ONLY psn 1001 a +10
    @ 500us
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    @ 500us
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    @ 500us
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    @ 500us
    @ 550us
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    < SEND ONLY psn 1001 a +10
    @ 50us
    > ACKNOWLEDGE psn 1001 ack msn 2
    = 2 success 10
  )");
  EXPECT_EQ(script.counters().probes_sent, 1u + 2u + 4u + 8u + 8u);
  EXPECT_EQ(script.counters().packets_resent, script.counters().probes_sent);
}

TEST(Requester, AsksForTheRestOfAReadWhenStrict) {
  Script script(strict());
  script.play(R"(
    post read 1 700
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 700
    > RDMA READ RESPONSE FIRST psn 1000 ack msn 1 +256
    # 1001 is missing
    > RDMA READ RESPONSE LAST psn 1002 ack msn 1 +188
    < RDMA READ REQUEST psn 1001 a va 0x5100 dma 444
    > RDMA READ RESPONSE FIRST psn 1001 ack msn 1 +256
    > RDMA READ RESPONSE LAST psn 1002 ack msn 1 +188
    = 1 success 700
  )");
}

TEST(Requester, AReadResponseAcknowledgesWhatIsBeforeIt) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    post read 2 8
    < RDMA READ REQUEST psn 1001 a va 0x5000 dma 8
    > RDMA READ RESPONSE ONLY psn 1001 ack msn 2 +8
    = 1 success 10
    = 2 success 8
  )");
}

class BadResponses : public ::testing::TestWithParam<const char*> {};
TEST_P(BadResponses, EndTheRequest) {
  Script script;
  script.play("post read 1 300\n< RDMA READ REQUEST psn 1000 a va 0x5000 dma 300\n");
  script.play("> " + std::string(GetParam()) + "\n= 1 bad response\n");
}
INSTANTIATE_TEST_SUITE_P(
    All, BadResponses,
    ::testing::Values("RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +301",   // too long
                      "RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +10",    // too short
                      "RDMA READ RESPONSE FIRST psn 1000 ack msn 1 +100",  // not a full MTU
                      "ATOMIC ACKNOWLEDGE psn 1000 ack msn 1"));           // not a READ response

// An atomic moves one word: a request with another length is never sent.
TEST(Requester, AnAtomicWithALongListIsALocalLengthError) {
  for (const char* operation : {"cas", "fadd", "atomic_write"}) {
    Script script;
    script.play(std::string("post send 1 10\n< SEND ONLY psn 1000 a +10\npost ") + operation +
                " 2 9\npost send 3 10\n" + R"(
      > ACKNOWLEDGE psn 1000 ack msn 1
      = 1 success 10
      = 2 local length error
      = 3 flushed
    )");
  }
}

TEST(Requester, KeepsToMaxReads) {
  ScriptOptions options;
  options.max_reads = 2;
  Script script(options);
  script.play(R"(
    post read 1 8
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    post fadd 2 8
    < FETCH ADD psn 1001 a va 0x5000 swap 0x5 compare 0x0
    post read 3 8
    # and what is behind the one that waits, waits too
    post send 4 10
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +8
    = 1 success 8
    < RDMA READ REQUEST psn 1002 a va 0x5000 dma 8
    < SEND ONLY psn 1003 a +10
  )");
}

TEST(Requester, AFenceWaitsForReadsAndAtomics) {
  Script script;
  script.play(R"(
    post read 1 8
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    post send 2 10
    < SEND ONLY psn 1001 a +10
    post send 3 10 fence
    > ACKNOWLEDGE psn 1000 ack msn 1
    < RDMA READ REQUEST psn 1000 a va 0x5000 dma 8
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +8
    = 1 success 8
    < SEND ONLY psn 1002 a +10
  )");
}

// ---- ATOMIC ----

TEST(Requester, AtomicsPlaceTheOriginalValueInHostOrder) {
  Script script;
  script.play(R"(
    post cas 1 8
    < COMPARE SWAP psn 1000 a va 0x5000 swap 0x6 compare 0x5
    > ATOMIC ACKNOWLEDGE psn 1000 ack msn 1 original 0x1122334455667788
    = 1 success 8
    post fadd 2 8
    < FETCH ADD psn 1001 a va 0x5000 swap 0x5 compare 0x0
    > ACKNOWLEDGE psn 1001 nak(1) msn 1
    = 2 remote invalid request
  )");
  EXPECT_EQ(load_native<std::uint64_t>(script.at(Script::kAddress)), 0x1122334455667788u);
}

TEST(Requester, FlushAndAtomicWriteCompleteByAnEmptyResponse) {
  Script script;
  script.play(R"(
    post atomic_write 1 8
    < ATOMIC WRITE psn 1000 a +8 va 0x5000 dma 8
    post flush 2 64
    < FLUSH psn 1001 a va 0x5000 dma 64
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1
    = 1 success 8
    > RDMA READ RESPONSE ONLY psn 1001 ack msn 2
    = 2 success 64
  )");
}

// ---- flow ----

TEST(Requester, AsksForAcksBeforeItsWindowIsFull) {
  ScriptOptions options;
  options.engine.window_octets_max = 1024;  // four packets
  Script script(options);
  script.play(R"(
    post send 1 2000
    < SEND FIRST psn 1000 a +256
    < SEND MIDDLE psn 1001 a +256
    < SEND MIDDLE psn 1002 a +256
    < SEND MIDDLE psn 1003 a +256
    > ACKNOWLEDGE psn 1001 ack msn 0
    < SEND MIDDLE psn 1004 a +256
    < SEND MIDDLE psn 1005 a +256
  )");
}

TEST(Requester, ACongestionNotificationShrinksTheWindow) {
  Script script;
  const std::uint32_t before = script.qp().req.congestion->window();
  script.play("post send 1 10\n< SEND ONLY psn 1000 a +10\n> CNP psn 0 +16\n");
  EXPECT_LT(script.qp().req.congestion->window(), before);
  EXPECT_EQ(script.counters().cnps_received, 1u);
}

TEST(Requester, AGhostOfAnAnswerAfterTheErrorIsIgnored) {
  Script script;
  script.play(R"(
    post send 1 10
    < SEND ONLY psn 1000 a +10
    > ACKNOWLEDGE psn 1000 nak(2) msn 0
    = 1 remote access error
    > ACKNOWLEDGE psn 1000 ack msn 1
    > RDMA READ RESPONSE ONLY psn 1000 ack msn 1 +8
    post send 2 10
    = 2 flushed
  )");
}

}  // namespace rrdma::conformance::requester_test
