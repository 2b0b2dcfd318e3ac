// Requests that are sent at once after the post (Engine::transmit_straight): the same frames as transmit()
// sends, and only where nothing else must come first.
#include <gtest/gtest.h>

#include <vector>

#include "transport/engine.h"
#include "transport/test_engine_pair.h"

namespace rrdma::transport::straight_test {

class Straight : public EnginePair {
 protected:
  static constexpr std::uint32_t kTrain = 64 * 1024;

  bool straight(Host& host) { return host.engine.transmit_straight(*host.qp, host.wire, now_); }
  void receive(Host& host, std::uint32_t room = kTrain) {
    const Sge place = host.sge(1 << 19, room);
    ASSERT_EQ(host.engine.post_receive(*host.qp, 7, {&place, 1}, now_), PostError::kNone);
  }
  PostError post_immediate(Host& host, std::uint32_t length, std::uint8_t flags) {
    const Sge from = host.sge(0, length);
    SendRequest request;
    request.entry.opcode = SendOpcode::kSendImmediate;
    request.entry.immediate_or_key = 0x01020304;
    request.entry.flags = flags;
    request.list = {&from, 1};
    return host.engine.post_send(*host.qp, request, now_);
  }
  // The packets that were sent since the last call, without their PSNs.
  std::vector<std::vector<std::uint8_t>> take(Host& host) {
    std::vector<std::vector<std::uint8_t>> taken(host.wire.packets.begin(), host.wire.packets.end());
    host.wire.packets.clear();
    for (auto& packet : taken) packet[9] = packet[10] = packet[11] = 0;
    return taken;
  }
};

TEST_F(Straight, TheFramesAreThoseOfTransmit) {
  fill(a_, 0, 9000);
  for (const std::uint32_t length : {0u, 1u, 8u, 63u, 1024u, 1025u, 9000u}) {
    connect(QpType::kRc, 3, kTrain, 0x1000 + 2 * length);
    for (const std::uint8_t flags : {std::uint8_t{0}, objects::kSendSolicited, objects::kSendInline}) {
      if ((flags & objects::kSendInline) != 0 && length > 256) continue;
      ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, length)}, 0, flags), PostError::kNone);
      ASSERT_EQ(post_immediate(a_, length, flags), PostError::kNone);
      a_.engine.transmit(a_.wire, now_);
      const auto expected = take(a_);
      const auto counted = a_.engine.counters();
      ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, length)}, 0, flags), PostError::kNone);
      ASSERT_EQ(post_immediate(a_, length, flags), PostError::kNone);
      ASSERT_TRUE(straight(a_));
      EXPECT_FALSE(a_.engine.wants_transmit());
      EXPECT_EQ(take(a_), expected) << length << " bytes";
      EXPECT_EQ(a_.engine.counters().messages_sent, counted.messages_sent + 2);
      EXPECT_EQ(a_.engine.counters().octets_sent, counted.octets_sent + 2 * length);
    }
    for (Host* host : {&a_, &b_}) host->engine.destroy_qp(*std::exchange(host->qp, nullptr));
  }
}

TEST_F(Straight, MessagesArriveAcrossThePsnWrap) {
  connect(QpType::kRc, 3, kTrain);
  for (std::uint8_t i = 0; i < 40; ++i) {
    receive(b_);
    a_.buffer[0] = i;
    ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 3000)}), PostError::kNone);
    ASSERT_TRUE(straight(a_));
    deliver(a_, b_);
    EXPECT_EQ(b_.poll().byte_length, 3000u);
    EXPECT_EQ(b_.buffer[1 << 19], i);
    b_.engine.transmit(b_.wire, now_);
    deliver(b_, a_);
    EXPECT_EQ(a_.poll().status, Status::kSuccess);
  }
  EXPECT_EQ(a_.qp->req.una, a_.qp->req.next);
}

TEST_F(Straight, AReplyTakesTheAckAlong) {
  connect(QpType::kRc, 3, kTrain);
  receive(b_);
  receive(a_);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}), PostError::kNone);
  ASSERT_TRUE(straight(a_));
  deliver(a_, b_);
  ASSERT_EQ(post(b_, SendOpcode::kSend, {b_.sge(0, 8)}), PostError::kNone);
  ASSERT_TRUE(straight(b_));
  EXPECT_EQ(b_.wire.acks_taken_along, 1);
  EXPECT_FALSE(b_.engine.wants_transmit());
  deliver(b_, a_);
  EXPECT_EQ(a_.poll().opcode, objects::CompletionOpcode::kSend);
  EXPECT_EQ(a_.poll().opcode, objects::CompletionOpcode::kReceive);
}

// A NAK is no plain ACK, and without trains no ACK may ride: transmit() sends both.
TEST_F(Straight, AnAnswerThatCannotRideIsLeft) {
  for (const std::uint32_t train : {kTrain, 1024u}) {
    connect(QpType::kRc, 3, train, train);
    if (train != kTrain) receive(b_);  // otherwise the answer is an RNR NAK
    ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}), PostError::kNone);
    ASSERT_TRUE(straight(a_));
    deliver(a_, b_);
    ASSERT_EQ(post(b_, SendOpcode::kSend, {b_.sge(0, 8)}), PostError::kNone);
    EXPECT_FALSE(straight(b_));
    EXPECT_TRUE(b_.wire.packets.empty());
    b_.engine.transmit(b_.wire, now_);
    EXPECT_EQ(b_.wire.packets.size(), 2u);
    b_.wire.packets.clear();
    for (Host* host : {&a_, &b_}) host->engine.destroy_qp(*std::exchange(host->qp, nullptr));
  }
}

TEST_F(Straight, WhatIsNotSimpleIsLeftForTransmit) {
  connect(QpType::kRc, 3, kTrain);
  const auto left = [&](const char* what) {
    EXPECT_FALSE(straight(a_)) << what;
    EXPECT_TRUE(take(a_).empty()) << what;
    EXPECT_TRUE(a_.engine.wants_transmit()) << what;
    a_.engine.transmit(a_.wire, now_);
    take(a_);
  };
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 8)}), PostError::kNone);
  left("a WRITE");
  ASSERT_EQ(post(a_, SendOpcode::kRead, {a_.sge(0, 8)}), PostError::kNone);
  left("a READ");
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, kTrain + 1)}), PostError::kNone);
  left("a SEND of two frames");
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}, 0, objects::kSendFence), PostError::kNone);
  left("a SEND behind a fence");
}

TEST_F(Straight, AQpThatWaitsKeepsItsOrder) {
  connect(QpType::kRc, 3, kTrain);
  a_.wire.room = 0;
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}), PostError::kNone);
  EXPECT_FALSE(straight(a_)) << "no room";
  a_.wire.room = SIZE_MAX;
  a_.engine.transmit(a_.wire, now_);
  deliver(a_, b_);
  b_.engine.transmit(b_.wire, now_);
  deliver(b_, a_);
  ASSERT_TRUE(a_.qp->req.waiting_rnr);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 16)}), PostError::kNone);
  EXPECT_FALSE(straight(a_)) << "the peer is not ready";
  EXPECT_TRUE(a_.wire.packets.empty());
  receive(b_);
  receive(b_);
  run();
  EXPECT_EQ(b_.poll().byte_length, 8u);
  EXPECT_EQ(b_.poll().byte_length, 16u);
}

TEST_F(Straight, AnotherReadyQpHasItsTurn) {
  connect(QpType::kRc, 3, kTrain);
  QueuePair* const first = a_.qp;
  a_.qp = nullptr;
  QueuePair* const peer = b_.qp;
  b_.qp = nullptr;
  connect(QpType::kRc, 3, kTrain, 0x40);
  for (QueuePair* qp : {first, a_.qp}) {
    SendRequest request;
    request.entry.opcode = SendOpcode::kSend;
    const Sge from = a_.sge(0, 8);
    request.list = {&from, 1};
    ASSERT_EQ(a_.engine.post_send(*qp, request, now_), PostError::kNone);
  }
  EXPECT_FALSE(straight(a_));
  EXPECT_TRUE(a_.wire.packets.empty());
  a_.engine.transmit(a_.wire, now_);
  EXPECT_EQ(a_.wire.packets.size(), 2u);
  a_.engine.destroy_qp(*first);
  b_.engine.destroy_qp(*peer);
}

// The memory may be gone. transmit() finds it again and fails the request.
TEST_F(Straight, ABadKeyIsLeftForTransmit) {
  connect(QpType::kRc, 3, kTrain);
  Sge bad = a_.sge(0, 8);
  bad.lkey.value ^= 0x5500;
  ASSERT_EQ(post(a_, SendOpcode::kSend, {bad}), PostError::kNone);
  EXPECT_FALSE(straight(a_));
  EXPECT_EQ(a_.cq.size(), 0u);
  a_.engine.transmit(a_.wire, now_);
  EXPECT_EQ(a_.poll().status, Status::kLocalProtectionError);
}

TEST_F(Straight, ALossyPathNeverGoesStraight) {
  connect(QpType::kRc);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}), PostError::kNone);
  EXPECT_FALSE(straight(a_));
  EXPECT_TRUE(a_.engine.wants_transmit());
}

}  // namespace rrdma::transport::straight_test
