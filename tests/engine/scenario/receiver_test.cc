// Receivers that are not ready, run out of receive requests, or have too little room.
#include <gtest/gtest.h>

#include "pair.h"

namespace rrdma::scenario::receiver_test {

using objects::SendOpcode;
using objects::Status;
using transport::Counters;
using transport::QpEvent;
using transport::QpState;

TEST(Receiver, AnRnrStormEndsWhenReceivesArePosted) {
  Pair pair;
  for (std::uint64_t i = 0; i < 20; ++i) pair.a.send(i, 1500);
  pair.run(milliseconds(50));
  EXPECT_EQ(pair.a.statuses(), "");
  EXPECT_GT(pair.b.host.engine.counters().rnr_naks_sent, 100u);  // one in 10 us, without end
  for (std::uint64_t i = 0; i < 20; ++i) pair.b.receive(100 + i, static_cast<std::uint32_t>(i) * 2048, 2048);
  pair.run(milliseconds(50));
  ASSERT_EQ(pair.a.completions.size(), 20u);
  ASSERT_EQ(pair.b.completions.size(), 20u);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(pair.a.completions[i].wr_id, i);
    EXPECT_EQ(pair.a.completions[i].status, Status::kSuccess);
    EXPECT_EQ(pair.b.completions[i].wr_id, 100 + i);
    EXPECT_TRUE(pair.b.holds(static_cast<std::uint32_t>(i) * 2048, pair.a, 0, 1500));
  }
}

TEST(Receiver, RnrRetriesRunOut) {
  PairOptions options;
  options.rnr_retry = 3;
  Pair pair(options);
  pair.a.send(1, 10);
  pair.a.send(2, 10);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: RNR retry counter exceeded, 2: flushed");
  EXPECT_EQ(pair.b.host.engine.counters().rnr_naks_sent, 4u);
  EXPECT_EQ(pair.b.qp->state, QpState::kReadyToSend);  // the receiver made no mistake
}

TEST(Receiver, TheRnrTimerIsHonoured) {
  PairOptions options;
  options.min_rnr_timer = 18;  // 5.12 ms
  Pair pair(options);
  pair.a.send(1, 10);
  pair.run(milliseconds(1));
  pair.b.receive(7, 0, 100);
  pair.run();
  ASSERT_EQ(pair.a.statuses(), "1: success");
  EXPECT_GE(pair.a.completions[0].timestamp_ns, 5'120'000);
  EXPECT_LE(pair.a.completions[0].timestamp_ns, 5'300'000);
}

// The receives of a shared queue belong to its own domain, whatever the domain of the QP that takes them.
TEST(Receiver, ASharedQueueHasADomainOfItsOwn) {
  for (const transport::QpType type : {transport::QpType::kRc, transport::QpType::kUc}) {
    for (const bool in_queues_domain : {true, false}) {
      PairOptions options;
      options.type = type;
      options.shared_entries = 8;
      Pair pair(options);
      objects::ProtectionDomain domain{.handle = 99};
      auto region = pair.b.host.memory.register_region({.pd = &domain,
                                                        .host = pair.b.memory.data(),
                                                        .length = 4096,
                                                        .address = 0x6000'0000'0000,
                                                        .access = objects::kLocalWrite});
      ASSERT_TRUE(region.ok());
      pair.b.shared->pd = &domain;
      const objects::Sge sge{0x6000'0000'0000, 4096, wire::LKey{(*region)->key}};
      if (in_queues_domain) {
        ASSERT_TRUE(pair.b.shared->post(7, {&sge, 1}));
      } else {
        pair.b.receive(7, 0, 4096);  // in the QP's domain
      }
      pair.a.send(1, 100);
      pair.run();
      if (in_queues_domain) {
        EXPECT_EQ(pair.b.statuses(), "7: success");
        EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 100));
      } else if (type == transport::QpType::kRc) {
        EXPECT_EQ(pair.b.statuses(), "7: local protection error");
        EXPECT_EQ(pair.a.statuses(), "1: remote operation error");
      } else {
        EXPECT_TRUE(pair.b.untouched(0, 4096));
      }
      pair.b.destroy();
      ASSERT_TRUE(pair.b.host.memory.deregister(**region).ok());
    }
  }
}

TEST(Receiver, OnlyWriteWithImmediateTakesAReceive) {
  Pair pair;
  pair.a.write(1, 0, 1000, 500);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "1: success");
  objects::SendEntry entry = pair.a.entry(2, SendOpcode::kWriteImmediate, 5000);
  entry.immediate_or_key = 0x01020304;
  ASSERT_EQ(pair.a.post(entry, 0, 500), transport::PostError::kNone);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "1: success");
  pair.b.receive(7, 0, 0);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "1: success, 2: success");
  ASSERT_EQ(pair.b.statuses(), "7: success");
  EXPECT_EQ(pair.b.completions[0].opcode, objects::CompletionOpcode::kReceiveWriteImmediate);
  EXPECT_EQ(pair.b.completions[0].immediate_or_key, 0x01020304u);
  EXPECT_EQ(pair.b.completions[0].byte_length, 500u);
  EXPECT_TRUE(pair.b.holds(5000, pair.a, 0, 500));
}

TEST(Receiver, ASharedQueueRunsDryAndTellsOfItsLimit) {
  PairOptions options;
  options.shared_entries = 8;
  options.min_rnr_timer = 5;
  Pair pair(options);
  for (std::uint64_t i = 0; i < 4; ++i) pair.b.receive(100 + i, static_cast<std::uint32_t>(i) * 1024, 1024);
  pair.b.shared->arm_limit(3);
  for (std::uint64_t i = 0; i < 6; ++i) pair.a.send(i, 700);
  pair.run(milliseconds(5));
  EXPECT_EQ(pair.a.completions.size(), 4u);
  EXPECT_EQ(pair.b.limits, 1u);  // once: the event disarms it
  EXPECT_GT(pair.b.host.engine.counters().rnr_naks_sent, 1u);
  for (std::uint64_t i = 4; i < 6; ++i) pair.b.receive(100 + i, static_cast<std::uint32_t>(i) * 1024, 1024);
  pair.run(milliseconds(5));
  EXPECT_EQ(pair.a.completions.size(), 6u);
  EXPECT_EQ(pair.b.ids(), (std::vector<std::uint64_t>{100, 101, 102, 103, 104, 105}));
  EXPECT_EQ(pair.b.limits, 1u);
}

TEST(Receiver, ASharedQueueKeepsItsRequestsWhenTheQpFails) {
  PairOptions options;
  options.shared_entries = 8;
  Pair pair(options);
  for (std::uint64_t i = 0; i < 4; ++i) pair.b.receive(100 + i, static_cast<std::uint32_t>(i) * 1024, 1024);
  ASSERT_TRUE(pair.b.to_state(QpState::kError));
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.b.statuses(), "");
  EXPECT_EQ(pair.b.shared->size(), 4u);
  EXPECT_EQ(pair.b.count(QpEvent::kLastReceiveReached), 1u);
}

TEST(Receiver, AMessageLongerThanTheBufferFailsBothSides) {
  Pair pair;
  pair.b.receive(7, 0, 2000);
  pair.b.receive(8, 4096, 2000);
  pair.a.send(1, 2001);
  pair.a.send(2, 10);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: remote invalid request, 2: flushed");
  EXPECT_EQ(pair.b.statuses(), "7: local length error, 8: flushed");
  EXPECT_TRUE(pair.b.untouched(2000, 8000));
  EXPECT_EQ(pair.b.count(QpEvent::kRequestError), 1u);
}

TEST(Receiver, ABufferWithAnUnknownKeyFailsBothSides) {
  Pair pair;
  const objects::Sge sge{0x7000'0000'0000, 100, wire::LKey{pair.b.region->key ^ 0x100}};
  ASSERT_EQ(pair.b.host.engine.post_receive(*pair.b.qp, 7, {&sge, 1}, pair.world.now()),
            transport::PostError::kNone);
  pair.a.send(1, 50);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: remote operation error");
  EXPECT_EQ(pair.b.statuses(), "7: local protection error");
  EXPECT_EQ(pair.b.count(QpEvent::kFatal), 1u);
}

TEST(Receiver, ACompletionQueueThatRunsOverIsAnEvent) {
  PairOptions options;
  options.completion_entries = 4;
  Pair pair(options);
  pair.b.polls = false;
  for (std::uint64_t i = 0; i < 8; ++i) pair.b.receive(100 + i, 0, 100);
  for (std::uint64_t i = 0; i < 8; ++i) {
    pair.a.send(i, 10);
    pair.run(milliseconds(1));
  }
  EXPECT_EQ(pair.b.overflows, 1u);
  EXPECT_TRUE(pair.b.queue->overflowed());
  pair.b.polls = true;
  pair.b.host.wake(pair.world.now());
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.b.ids(), (std::vector<std::uint64_t>{100, 101, 102, 103}));
}

}  // namespace rrdma::scenario::receiver_test
