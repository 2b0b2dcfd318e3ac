// The classic cases of a lossy network, one each: which packet is lost, and how the exchange ends.
#include <gtest/gtest.h>

#include <numeric>

#include "pair.h"

namespace rrdma::scenario::loss_test {

using objects::SendOpcode;
using objects::Status;
using transport::QpEvent;
using transport::QpState;
using wire::Step;

using Ids = std::vector<std::uint64_t>;

std::uint64_t spent(const Side& side, std::uint64_t transport::Counters::*counter) {
  return side.host.engine.counters().*counter;
}

TEST(Loss, TheLastAckIsLost) {
  Pair pair;
  pair.lose(pair.b, positive_ack());
  pair.b.receive(7, 0, 4096);
  pair.a.send(1, 3000);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_EQ(pair.b.statuses(), "7: success");  // once, although the SEND arrived twice
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 3000));
  EXPECT_TRUE(pair.b.untouched(3000, 2000));
  EXPECT_GE(spent(pair.b, &transport::Counters::duplicates), 1u);
  EXPECT_GE(spent(pair.a, &transport::Counters::ack_timeouts) +
                spent(pair.a, &transport::Counters::early_retransmits),
            1u);
}

TEST(Loss, TheFirstRequestIsLost) {
  Pair pair;
  pair.lose(pair.a, step_is(Step::kSendOnly));
  pair.b.receive(7, 0, 4096);
  pair.a.send(1, 10);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_EQ(spent(pair.b, &transport::Counters::sequence_naks_sent),
            0u);  // no packet behind it revealed the gap
  EXPECT_GE(spent(pair.a, &transport::Counters::ack_timeouts), 1u);
}

TEST(Loss, AGapIsNakedOnceAndFilled) {
  Pair pair;
  pair.lose(pair.a, psn_is(102));
  pair.b.receive(7, 0, 16384);
  pair.a.send(1, 10000);
  const Instant start = pair.world.now();
  Instant end;
  pair.a.on_each = [&](const objects::Completion&) { end = pair.world.now(); };
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 10000));
  EXPECT_EQ(spent(pair.b, &transport::Counters::sequence_naks_sent), 1u);
  EXPECT_EQ(spent(pair.a, &transport::Counters::ack_timeouts), 0u);
  EXPECT_LT(end - start, microseconds(100));  // by the NAK, not by a timer
}

TEST(Loss, TheNakIsLostToo) {
  Pair pair;
  pair.lose(pair.a, psn_is(102));
  pair.lose(pair.b, nak());
  pair.b.receive(7, 0, 16384);
  pair.a.send(1, 10000);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_EQ(pair.b.statuses(), "7: success");
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 10000));
}

TEST(Loss, TheMiddleOfAReadResponseIsLost) {
  Pair pair;
  pair.lose(pair.b, step_is(Step::kReadResponseMiddle), 1, 3);
  pair.a.read(1, 0, 500, 8000);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_TRUE(pair.a.holds(0, pair.b, 500, 8000));
  EXPECT_TRUE(pair.a.untouched(8000, 1000));
  EXPECT_EQ(spent(pair.b, &transport::Counters::read_replays), 1u);
  EXPECT_EQ(spent(pair.a, &transport::Counters::ack_timeouts), 0u);  // the next response reveals the loss
}

TEST(Loss, TheLastReadResponseIsLost) {
  Pair pair;
  pair.lose(pair.b, step_is(Step::kReadResponseLast));
  pair.a.read(1, 0, 0, 4000);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_TRUE(pair.a.holds(0, pair.b, 0, 4000));
}

// An ACK beyond an unanswered READ means that its response was lost.
TEST(Loss, AnAckBeyondAReadSendsTheReadAgain) {
  Pair pair;
  pair.lose(pair.b, step_is(Step::kReadResponseOnly));
  pair.a.read(1, 0, 0, 100);
  pair.a.write(2, 200, 5000, 100);
  Instant end;
  pair.a.on_each = [&](const objects::Completion&) { end = pair.world.now(); };
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success, 2: success");
  EXPECT_TRUE(pair.a.holds(0, pair.b, 0, 100));
  EXPECT_TRUE(pair.b.holds(5000, pair.a, 200, 100));
  EXPECT_EQ(spent(pair.a, &transport::Counters::implied_naks), 1u);
  EXPECT_LT(end - Instant{}, microseconds(100));
}

TEST(Loss, AnAtomicIsExecutedOnceWhenItsAnswerIsLost) {
  Pair pair;
  pair.lose(pair.b, step_is(Step::kAtomicAcknowledge), 2);
  const std::uint64_t before = pair.b.word(64);
  pair.a.fetch_add(1, 0, 64, 5);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_EQ(pair.a.word(0), before);
  EXPECT_EQ(pair.b.word(64), before + 5);
  EXPECT_EQ(spent(pair.b, &transport::Counters::atomic_replays), 2u);
}

TEST(Loss, AtomicsInARowAreReplayedFromTheirSavedResults) {
  PairOptions options;
  options.max_reads = options.max_destination_reads = 4;
  Pair pair(options);
  pair.lose(pair.b, step_is(Step::kAtomicAcknowledge), 4);
  const std::uint64_t before = pair.b.word(64);
  for (std::uint32_t i = 0; i < 4; ++i) pair.a.fetch_add(i, i * 8, 64, 1);
  pair.run();
  EXPECT_EQ(pair.a.ids(), (Ids{0, 1, 2, 3}));
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(pair.a.word(i * 8), before + i);
  EXPECT_EQ(pair.b.word(64), before + 4);
}

TEST(Loss, AThirdOfAllPacketsIsLost) {
  Pair pair;
  pair.world.network().set_faults({.drop_ppm = 333'333});
  pair.b.receive(7, 0, 100'000);
  pair.a.send(1, 50'000);
  pair.run(seconds(20));
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 50'000));
}

TEST(Loss, ThePsnWrapsInTheMiddleOfAMessage) {
  PairOptions options;
  options.psn_a = 0xfffffe;
  options.psn_b = 0xffffff;
  Pair pair(options);
  pair.lose(pair.a, psn_is(0));
  pair.lose(pair.b, step_is(Step::kReadResponseMiddle));
  pair.b.receive(7, 0, 16384);
  pair.a.receive(8, 32768, 16384);
  pair.a.send(1, 9000);
  pair.a.read(2, 100'000, 200'000, 9000);
  pair.b.send(3, 9000);
  pair.run();
  EXPECT_EQ(pair.a.completions.size(), 3u) << pair.a.statuses();
  EXPECT_EQ(pair.b.completions.size(), 2u) << pair.b.statuses();
  for (const Side* side : {&pair.a, &pair.b}) {
    for (const auto& completion : side->completions) EXPECT_EQ(completion.status, Status::kSuccess);
  }
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 9000));
  EXPECT_TRUE(pair.a.holds(100'000, pair.b, 200'000, 9000));
  EXPECT_EQ(pair.a.qp->req.next.value, (0xfffffe + 9 + 9) & 0xffffffu);
}

TEST(Loss, AFenceHoldsWhileTheReadIsRepeated) {
  Pair pair;
  pair.lose(pair.b, step_is(Step::kReadResponseOnly));
  pair.b.receive(7, 50'000, 1000);
  pair.a.read(1, 0, 0, 500);
  // sends the data that the READ fetches
  pair.a.request(2, SendOpcode::kSend, 0, 500, 0, objects::kSendFence);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success, 2: success");
  EXPECT_TRUE(pair.b.holds(50'000, pair.b, 0, 500));
}

TEST(Loss, APeerThatStopsForEver) {
  PairOptions options;
  options.timeout = 8;  // 1.05 ms
  options.retry_count = 3;
  Pair pair(options);
  pair.silence(pair.b);
  pair.b.receive(7, 0, 4096);
  pair.a.receive(8, 0, 100);
  pair.a.send(1, 100);
  pair.a.write(2, 0, 0, 100);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: transport retry counter exceeded, 2: flushed, 8: flushed");
  EXPECT_EQ(pair.a.qp->state, QpState::kError);
  EXPECT_EQ(objects::cause_of(pair.a.completions[0].vendor_err), objects::Cause::kPeerSilent);
  // Four attempts of 4.096 us * 2^8 each, and not much more than that.
  const std::int64_t end = pair.a.completions[0].timestamp_ns;
  EXPECT_GE(end, 4 * (4096 << 8));
  EXPECT_LE(end, 4 * 4 * (4096 << 8));
  EXPECT_EQ(pair.b.statuses(), "7: success");  // it received the SEND
}

TEST(Loss, ATimeoutOfZeroWaitsForEver) {
  PairOptions options;
  options.timeout = 0;
  options.retry_count = 0;
  Pair pair(options);
  pair.silence(pair.b);
  pair.b.receive(7, 0, 4096);
  pair.a.send(1, 100);
  pair.run(seconds(30));
  EXPECT_EQ(pair.a.statuses(), "");
  EXPECT_EQ(pair.a.qp->state, QpState::kReadyToSend);
}

TEST(Loss, ACorruptedPacketIsALostPacket) {
  Pair pair;
  pair.world.network().set_faults({.corrupt_ppm = 100'000, .seed = 3});
  pair.b.receive(7, 0, 300'000);
  pair.a.send(1, 300'000);
  pair.run(seconds(20));
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 300'000));
  EXPECT_GT(pair.world.network().count(link::Fate::kIcrcRefused), 5u);
}

}  // namespace rrdma::scenario::loss_test
