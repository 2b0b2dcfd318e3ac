// QPs that are created, destroyed or modified while packets are in flight.
#include <gtest/gtest.h>

#include "pair.h"

namespace rrdma::scenario::lifecycle_test {

using objects::SendOpcode;
using objects::Status;
using transport::PostError;
using transport::QpEvent;
using transport::QpState;
using transport::QpType;

TEST(Lifecycle, DestroyWithTrafficInFlight) {
  PairOptions options;
  options.timeout = 6;
  options.retry_count = 2;
  for (std::int64_t delay = 0; delay < 40'000; delay += 1'000) {  // at every stage of the exchange
    Pair pair(options);
    for (std::uint64_t i = 0; i < 10; ++i) pair.b.receive(100 + i, 0, 8192);
    for (std::uint64_t i = 0; i < 10; ++i) pair.a.send(i, 6000);
    pair.a.read(10, 100'000, 0, 20'000);
    pair.b.write(11, 0, 200'000, 20'000);
    pair.run(nanoseconds(delay));
    pair.b.destroy();
    const std::size_t seen = pair.b.completions.size();
    pair.run(seconds(1));
    EXPECT_EQ(pair.b.completions.size(), seen) << "after " << delay << " ns";
    EXPECT_EQ(pair.b.host.engine.qp_count(), 0u);
    ASSERT_EQ(pair.a.completions.size(), 11u);  // each exactly once
    for (std::uint64_t i = 0; i < 11; ++i) EXPECT_EQ(pair.a.completions[i].wr_id, i);
  }
}

TEST(Lifecycle, DestroyOfTheSenderLeavesTheReceiverAlone) {
  for (std::int64_t delay = 0; delay < 20'000; delay += 700) {
    Pair pair;
    pair.b.receive(7, 0, 65536);
    pair.a.send(1, 60'000);
    pair.run(nanoseconds(delay));
    pair.a.destroy();
    pair.run(milliseconds(200));
    EXPECT_LE(pair.b.completions.size(), 1u);
    EXPECT_EQ(pair.b.qp->state, QpState::kReadyToSend);
    EXPECT_TRUE(pair.b.untouched(65536, 10'000));
  }
}

TEST(Lifecycle, TheErrorStateFlushesEverythingInOrder) {
  Pair pair;
  pair.silence(pair.a);
  for (std::uint64_t i = 0; i < 5; ++i) pair.a.receive(100 + i, 0, 100);
  for (std::uint64_t i = 0; i < 5; ++i) pair.a.write(i, 0, 0, 3000);
  pair.run(microseconds(10));
  ASSERT_TRUE(pair.a.to_state(QpState::kError));
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.ids(), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 100, 101, 102, 103, 104}));
  for (const auto& completion : pair.a.completions) EXPECT_EQ(completion.status, Status::kFlushed);
  // Requests posted from now on are flushed at once.
  pair.a.write(5, 0, 0, 10);
  pair.a.receive(105, 0, 10);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.completions.size(), 12u);
}

TEST(Lifecycle, ResetForgetsEverythingAndTheQpServesAgain) {
  Pair pair;
  pair.silence(pair.b);
  for (std::uint64_t i = 0; i < 5; ++i) pair.a.write(i, 0, 0, 3000);
  pair.run(microseconds(50));
  ASSERT_TRUE(pair.a.to_state(QpState::kReset));
  pair.run(seconds(1));
  EXPECT_EQ(pair.a.statuses(), "");
  EXPECT_EQ(pair.a.post(pair.a.entry(6, SendOpcode::kWrite), 0, 10), PostError::kWrongState);
}

TEST(Lifecycle, TheSendQueueDrainsAndGoesOn) {
  Pair pair;
  for (std::uint64_t i = 0; i < 4; ++i) pair.a.write(i, 0, 0, 20'000);
  pair.run(microseconds(2));
  transport::QpAttributes attributes;
  attributes.state = QpState::kDrain;
  attributes.drain_notify = true;
  ASSERT_TRUE(pair.a.modify(attributes, transport::kAttrState | transport::kAttrDrainNotify));
  for (std::uint64_t i = 4; i < 8; ++i) pair.a.write(i, 0, 0, 100);  // may be posted, but must wait
  pair.run(milliseconds(50));
  EXPECT_EQ(pair.a.count(QpEvent::kSendQueueDrained), 1u);
  const std::size_t done = pair.a.completions.size();
  EXPECT_GE(done, 1u);
  EXPECT_LE(done, 4u);
  ASSERT_TRUE(pair.a.to_state(QpState::kReadyToSend));
  pair.run(milliseconds(50));
  EXPECT_EQ(pair.a.ids(), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pair.a.count(QpEvent::kSendQueueDrained), 1u);
}

TEST(Lifecycle, DrainingAnIdleQueueTellsAtOnce) {
  Pair pair;
  transport::QpAttributes attributes;
  attributes.state = QpState::kDrain;
  attributes.drain_notify = true;
  ASSERT_TRUE(pair.a.modify(attributes, transport::kAttrState | transport::kAttrDrainNotify));
  EXPECT_EQ(pair.a.count(QpEvent::kSendQueueDrained), 1u);
}

TEST(Lifecycle, TheFirstPacketBeforeRtsTellsThatCommunicationIsEstablished) {
  Pair pair;
  ASSERT_TRUE(pair.b.to_state(QpState::kReset));
  using namespace transport;
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.access_flags = objects::kRemoteWrite | objects::kLocalWrite;
  ASSERT_TRUE(pair.b.modify(attributes, kAttrState | kAttrPKeyIndex | kAttrPort | kAttrAccessFlags));
  attributes.state = QpState::kReadyToReceive;
  attributes.path = pair.b.host.path_to(pair.a.host, false, pair.b.qp->qpn, pair.a.qp->qpn);
  attributes.path_mtu = 3;
  attributes.destination = pair.a.qp->qpn;
  attributes.receive_psn = wire::Psn(100);
  ASSERT_TRUE(pair.b.modify(attributes, kAttrState | kAttrPath | kAttrPathMtu | kAttrDestinationQpn |
                                            kAttrReceivePsn | kAttrMaxDestinationReads | kAttrMinRnrTimer));
  pair.a.write(1, 0, 0, 100);
  pair.a.write(2, 0, 0, 100);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "1: success, 2: success");
  EXPECT_EQ(pair.b.count(QpEvent::kCommunicationEstablished), 1u);
}

TEST(Lifecycle, AnUnreliableQpStopsSendingAndRecovers) {
  PairOptions options;
  options.type = QpType::kUc;
  Pair pair(options);
  pair.b.receive(7, 0, 4096);
  pair.a.receive(8, 8192, 4096);
  const objects::Sge bad{0x7000'0000'0000, 100, wire::LKey{pair.a.region->key ^ 0x8000}};
  ASSERT_EQ(pair.a.host.engine.post_send(*pair.a.qp, {pair.a.entry(1, SendOpcode::kSend), {&bad, 1}},
                                         pair.world.now()),
            PostError::kNone);
  pair.a.send(2, 10);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "1: local protection error, 2: flushed");
  EXPECT_EQ(pair.a.qp->state, QpState::kSendError);
  pair.b.send(3, 20);  // it still receives
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.ids().back(), 8u);
  ASSERT_TRUE(pair.a.to_state(QpState::kReadyToSend));
  pair.a.send(4, 30);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.ids().back(), 4u);
  EXPECT_EQ(pair.a.completions.back().status, Status::kSuccess);
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 30));
}

TEST(Lifecycle, UnsignalledRequestsCompleteSilently) {
  PairOptions options;
  options.signal_all = false;
  Pair pair(options);
  for (std::uint64_t i = 0; i < 60; ++i)
    pair.a.write(i, 0, 0, 100, i == 59 ? objects::kSendSignaled : std::uint8_t{0});
  pair.run(milliseconds(5));
  EXPECT_EQ(pair.a.statuses(), "59: success");
  for (std::uint64_t i = 60; i < 120; ++i)
    pair.a.write(i, 0, 0, 100);  // their entries in the queue are free again
  pair.run(milliseconds(5));
  EXPECT_EQ(pair.a.completions.size(), 1u);
}

TEST(Lifecycle, AHostThatIsPausedLosesNothing) {
  PairOptions options;
  options.timeout = 8;  // 1 ms
  Pair pair(options);
  pair.b.receive(7, 0, 200'000);
  pair.a.send(1, 200'000);
  pair.run(microseconds(5));
  pair.b.host.pause_until(pair.world.now() + milliseconds(3));
  pair.run(seconds(1));
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_EQ(pair.b.statuses(), "7: success");
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 200'000));
}

}  // namespace rrdma::scenario::lifecycle_test
