// Two engines back to back.
#include "transport/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "transport/test_engine_pair.h"

namespace rrdma::transport::engine_test {

TEST_F(EnginePair, SendArrivesAcrossThePsnWrap) {
  connect(QpType::kRc);
  fill(a_, 0, 5000);
  const Sge to[] = {b_.sge(0, 1000), b_.sge(8000, 6000)};
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 77, to, now_), PostError::kNone);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 100), a_.sge(100, 4900)}), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  const Completion received = b_.poll();
  EXPECT_EQ(received.status, Status::kSuccess);
  EXPECT_EQ(received.wr_id, 77u);
  EXPECT_EQ(received.byte_length, 5000u);
  EXPECT_EQ(0, std::memcmp(b_.buffer.data(), a_.buffer.data(), 1000));
  EXPECT_EQ(0, std::memcmp(b_.buffer.data() + 8000, a_.buffer.data() + 1000, 4000));
  EXPECT_EQ(a_.engine.counters().packets_resent, 0u);
}

TEST_F(EnginePair, AResponseThatDoesNotFitIsTold) {
  connect(QpType::kRc);
  ASSERT_EQ(post(a_, SendOpcode::kRead, {a_.sge(0, 64)}), PostError::kNone);
  a_.engine.transmit(a_.wire, now_);
  deliver(a_, b_);
  b_.engine.transmit(b_.wire, now_);
  ASSERT_EQ(b_.wire.packets.size(), 1u);
  b_.wire.packets.front().resize(b_.wire.packets.front().size() - 8);
  deliver(b_, a_);
  EXPECT_EQ(a_.poll().status, Status::kBadResponse);
  ASSERT_EQ(a_.failures.size(), 1u);
  EXPECT_EQ(a_.failures[0].cause, objects::Cause::kPeerBadResponse);
  EXPECT_EQ(a_.failures[0].opcode, objects::CompletionOpcode::kRead);
  EXPECT_EQ(a_.failures[0].length, 64u);
  EXPECT_EQ(a_.failures[0].moved, 0u);
  EXPECT_EQ(a_.failures[0].syndrome, 0);
}

TEST_F(EnginePair, WriteReadAndAtomics) {
  connect(QpType::kRc);
  fill(a_, 0, 300000);
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 300000)}, 1000), PostError::kNone);
  ASSERT_EQ(post(a_, SendOpcode::kRead, {a_.sge(400000, 300000)}, 1000), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(0, std::memcmp(b_.buffer.data() + 1000, a_.buffer.data(), 300000));
  EXPECT_EQ(0, std::memcmp(a_.buffer.data() + 400000, a_.buffer.data(), 300000));

  std::uint64_t value = 40;
  std::memcpy(b_.buffer.data() + 64, &value, 8);
  SendRequest add;
  add.entry.opcode = SendOpcode::kFetchAdd;
  add.entry.remote_address = reinterpret_cast<std::uint64_t>(b_.buffer.data() + 64);
  add.entry.rkey = {b_.region->key};
  add.entry.atomic = {.compare_add = 2, .swap = 0};
  const Sge result = a_.sge(0, 8);
  add.list = {&result, 1};
  ASSERT_EQ(a_.engine.post_send(*a_.qp, add, now_), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  std::memcpy(&value, a_.buffer.data(), 8);
  EXPECT_EQ(value, 40u);
  std::memcpy(&value, b_.buffer.data() + 64, 8);
  EXPECT_EQ(value, 42u);
}

TEST_F(EnginePair, TrainsCarryManyPacketsInOneFrame) {
  connect(QpType::kRc, 3, 64 * 1024);
  fill(a_, 0, 200001);
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 200001)}), PostError::kNone);
  a_.engine.transmit(a_.wire, now_);
  EXPECT_EQ(a_.wire.packets.size(), 4u);
  run();
  ASSERT_EQ(post(a_, SendOpcode::kRead, {a_.sge(400000, 200001)}), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(0, std::memcmp(a_.buffer.data() + 400000, a_.buffer.data(), 200001));
}

TEST_F(EnginePair, TrainsEndAndBeginWhenTold) {
  connect(QpType::kRc, 3, 64 * 1024);
  const auto frames_of_a_write = [this] {
    EXPECT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 8 * 1024)}), PostError::kNone);
    a_.engine.transmit(a_.wire, now_);
    const std::size_t frames = a_.wire.packets.size();
    run();
    EXPECT_EQ(a_.poll().status, Status::kSuccess);
    return frames;
  };
  EXPECT_EQ(frames_of_a_write(), 1u);
  a_.engine.set_trains(false);
  EXPECT_EQ(frames_of_a_write(), 8u);
  QueuePair* const first_of_a = a_.qp;
  QueuePair* const first_of_b = b_.qp;
  connect(QpType::kRc, 3, 64 * 1024, 0x20);
  EXPECT_EQ(frames_of_a_write(), 8u) << "of a QP that was connected afterwards";
  a_.engine.set_trains(true);
  EXPECT_EQ(frames_of_a_write(), 1u);
  a_.engine.destroy_qp(*first_of_a);
  b_.engine.destroy_qp(*first_of_b);
}

TEST_F(EnginePair, AReplyTakesTheAckAlongWhereNothingIsLost) {
  for (const std::uint32_t train : {64u * 1024, 0u}) {
    connect(QpType::kRc, 3, train, train + 0x20);
    for (Host* host : {&a_, &b_}) {
      host->wire.acks_taken_along = 0;
      const Sge place = host->sge(4096, 64);
      ASSERT_EQ(host->engine.post_receive(*host->qp, 7, {&place, 1}, now_), PostError::kNone);
    }
    ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}), PostError::kNone);
    a_.engine.transmit(a_.wire, now_);
    deliver(a_, b_);
    ASSERT_EQ(post(b_, SendOpcode::kSend, {b_.sge(0, 8)}), PostError::kNone);
    b_.engine.transmit(b_.wire, now_);
    EXPECT_EQ(b_.wire.acks_taken_along, train != 0 ? 1 : 0);
    EXPECT_EQ(b_.wire.packets.size(), 2u);
    deliver(b_, a_);
    EXPECT_EQ(a_.poll().opcode, objects::CompletionOpcode::kSend);
    EXPECT_EQ(a_.poll().opcode, objects::CompletionOpcode::kReceive);
    // No request follows that could carry the ACK of the reply, so it travels alone.
    run();
    EXPECT_EQ(a_.wire.acks_taken_along, 0);
    EXPECT_EQ(b_.poll().opcode, objects::CompletionOpcode::kReceive);
    EXPECT_EQ(b_.poll().opcode, objects::CompletionOpcode::kSend);
    for (Host* host : {&a_, &b_}) host->engine.destroy_qp(*std::exchange(host->qp, nullptr));
  }
}

// A NAK is not a plain ACK: it travels alone, whatever else is to be sent.
TEST_F(EnginePair, ANakIsNotTakenAlong) {
  connect(QpType::kRc, 3, 64 * 1024);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 8)}), PostError::kNone);
  a_.engine.transmit(a_.wire, now_);
  deliver(a_, b_);
  ASSERT_EQ(post(b_, SendOpcode::kWrite, {b_.sge(0, 8)}), PostError::kNone);
  b_.engine.transmit(b_.wire, now_);
  EXPECT_EQ(b_.wire.acks_taken_along, 0);
  EXPECT_EQ(b_.wire.packets.size(), 2u);
}

TEST_F(EnginePair, ASendWithoutAReceiveWaitsByRnr) {
  connect(QpType::kRc);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 10)}), PostError::kNone);
  a_.engine.transmit(a_.wire, now_);
  deliver(a_, b_);
  b_.engine.transmit(b_.wire, now_);
  deliver(b_, a_);
  EXPECT_EQ(a_.engine.counters().rnr_naks_received, 1u);
  const Sge to = b_.sge(0, 100);
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, {&to, 1}, now_), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(b_.poll().status, Status::kSuccess);
}

TEST_F(EnginePair, ABadKeyFailsThisRequestAndFlushesTheRest) {
  connect(QpType::kRc);
  SendRequest bad;
  bad.entry.opcode = SendOpcode::kWrite;
  bad.entry.remote_address = reinterpret_cast<std::uint64_t>(b_.buffer.data());
  bad.entry.rkey = {b_.region->key ^ 0x100};
  const Sge from = a_.sge(0, 10);
  bad.list = {&from, 1};
  ASSERT_EQ(a_.engine.post_send(*a_.qp, bad, now_), PostError::kNone);
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {from}), PostError::kNone);
  run();
  const Completion failed = a_.poll();
  EXPECT_EQ(failed.status, Status::kRemoteAccessError);
  EXPECT_EQ(objects::cause_of(failed.vendor_err), objects::Cause::kPeerSaidAccessError);
  EXPECT_EQ(a_.poll().status, Status::kFlushed);
  EXPECT_EQ(a_.qp->state, QpState::kError);
  EXPECT_EQ(b_.qp->state, QpState::kError);
  EXPECT_EQ(b_.events.back(), QpEvent::kAccessError);
}

TEST_F(EnginePair, SilenceEndsInRetryExceeded) {
  connect(QpType::kRc);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 10)}), PostError::kNone);
  const Instant start = now_;
  while (a_.qp->state != QpState::kError && now_ < start + seconds(10)) {
    a_.engine.handle_timers(now_);
    a_.engine.transmit(a_.wire, now_);
    a_.wire.packets.clear();
    if (a_.qp->state != QpState::kError) now_ = std::max(now_, a_.engine.next_deadline());
  }
  EXPECT_EQ(a_.poll().status, Status::kRetryExceeded);
  const Duration nominal = nanoseconds((4096LL << 14) * 8);  // the first attempt and seven retries
  EXPECT_GE((now_ - start).ns, nominal.ns);
  EXPECT_LE((now_ - start).ns, nominal.ns + nominal.ns / 10);
}

// The process of the peer has ended. As on a network, the program has time to poll what was acknowledged
// before.
TEST_F(EnginePair, AnEndedPeerFailsRequestsAfterASilence) {
  connect(QpType::kRc);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 10)}), PostError::kNone);
  a_.engine.transmit(a_.wire, now_);
  a_.wire.packets.clear();
  const Instant start = now_;
  a_.engine.peer_gone(*a_.qp, now_);
  EXPECT_TRUE(a_.cq.is_empty());
  // A request that follows goes nowhere and does not prolong the silence.
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 10)}), PostError::kNone);
  while (a_.qp->state != QpState::kError && now_ < start + seconds(10)) {
    now_ = std::max(now_, a_.engine.settled_deadline());
    a_.engine.handle_timers(now_);
    a_.engine.transmit(a_.wire, now_);
    a_.wire.packets.clear();
  }
  EXPECT_EQ(a_.poll().status, Status::kRetryExceeded);
  EXPECT_EQ(a_.poll().status, Status::kFlushed);
  EXPECT_EQ((now_ - start).ns, milliseconds(100).ns);
}

// If less may be in flight than the distance between two AckReqs, only a timeout would continue.
TEST_F(EnginePair, WhoRunsOutOfBudgetHasAskedForAnAnswer) {
  a_.engine.set_windows(512 * 1024, 6 * 1024);
  connect(QpType::kRc);
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 30000)}), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(a_.engine.counters().ack_timeouts, 0u);
  EXPECT_EQ(a_.engine.counters().packets_resent, 0u);
}

// A QP that used the last room must not always be the first to find the next.
TEST_F(EnginePair, TwoShareALinkWithRoomForOnePacket) {
  connect(QpType::kUc);
  for (int i = 0; i < 30; ++i) ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 2000)}), PostError::kNone);
  QueuePair* const first_of_a = a_.qp;
  QueuePair* const first_of_b = b_.qp;
  connect(QpType::kUc, 3, 0, 0x20);
  for (int i = 0; i < 30; ++i) ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 2000)}), PostError::kNone);
  a_.wire.room = 1;
  int to_first = 0;
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(a_.engine.transmit(a_.wire, now_));
    wire::TransportPacket packet;
    ASSERT_EQ(a_.wire.packets.size(), 1u);
    ASSERT_EQ(wire::parse_transport(a_.wire.packets.front(), packet), wire::TransportError::kNone);
    a_.wire.packets.clear();
    if (packet.headers.bth.destination == wire::Qpn(0x11)) ++to_first;
  }
  EXPECT_EQ(to_first, 20);
  a_.engine.destroy_qp(*first_of_a);
  b_.engine.destroy_qp(*first_of_b);
}

// A link that executes one-sided requests at once and counts their bytes.
struct CountingAccess : objects::DirectAccess {
  bool direct_write(const objects::Path&, const objects::DirectTarget& target,
                    std::span<const objects::PayloadSpan> from) override {
    if (refuses_after-- == 0) return false;
    std::uint64_t at = target.address;
    for (const objects::PayloadSpan& span : from) {
      std::memcpy(reinterpret_cast<void*>(at), span.data, span.length);
      at += span.length;
      moved += span.length;
    }
    return true;
  }
  bool direct_read(const objects::Path&, const objects::DirectTarget&,
                   std::span<const objects::MutableSpan>) override {
    return false;
  }
  bool direct_atomic(const objects::Path&, const objects::DirectTarget& target,
                     objects::AtomicCall& call) override {
    ++atomics;
    if (refuses_after-- == 0) return false;
    call.target = reinterpret_cast<std::uint64_t*>(target.address);
    objects::run_atomic(&call);
    return true;
  }
  std::uint64_t moved = 0;
  int atomics = 0;  // number of calls
  int refuses_after = -1;
};

TEST_F(EnginePair, DirectRequestsGiveWayAfterAQuantum) {
  CountingAccess access;
  connect(QpType::kRc, 3, 65536);
  a_.engine.set_direct(&access);
  a_.qp->path.direct = true;
  constexpr std::uint32_t kLength = 900'000;
  const std::uint64_t quantum = EngineConfig{}.direct_octets_max;
  fill(a_, 0, kLength);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 400'000), a_.sge(400'000, 500'000)}), PostError::kNone);
  std::uint64_t before = 0;
  int turns = 0;
  do {
    a_.engine.transmit(a_.wire, now_);
    EXPECT_LE(access.moved - before, quantum);
    before = access.moved;
    ++turns;
  } while (a_.engine.has_yielded());
  EXPECT_EQ(turns, 3);
  EXPECT_EQ(access.moved, 3u * kLength);
  EXPECT_EQ(a_.engine.counters().direct_operations, 3u);
  EXPECT_EQ(a_.engine.counters().direct_turn_octets_max, quantum);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(std::memcmp(a_.buffer.data(), b_.buffer.data(), kLength), 0);
  EXPECT_TRUE(a_.wire.packets.empty());
}

// A copy of the link takes several turns.
struct SlowAccess : CountingAccess {
  bool direct_write(const objects::Path& path, const objects::DirectTarget& target,
                    std::span<const objects::PayloadSpan> from) override {
    EXPECT_EQ(target.resumes, asked != 0);
    if (++asked > turns) return CountingAccess::direct_write(path, target, from);
    unfinished_ = true;
    return false;
  }
  int turns = 5;
  int asked = 0;
};

TEST_F(EnginePair, OtherQpsHaveTheirTurnWhileADirectCopyGoesOn) {
  SlowAccess access;
  connect(QpType::kUc);
  QueuePair* const other_of_a = a_.qp;
  QueuePair* const other_of_b = b_.qp;
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(5000, 100)}, 5000), PostError::kNone);
  connect(QpType::kRc, 3, 0, 0x20);
  a_.engine.set_direct(&access);
  a_.qp->path.direct = true;
  fill(a_, 0, 1000);
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, 1000)}), PostError::kNone);
  ASSERT_EQ(post(a_, SendOpcode::kSend, {a_.sge(0, 10)}), PostError::kNone);
  for (int turn = 1; turn <= access.turns; ++turn) {
    a_.engine.transmit(a_.wire, now_);
    EXPECT_EQ(access.asked, turn) << "once for each turn";
    EXPECT_TRUE(a_.engine.has_yielded());
    EXPECT_EQ(a_.wire.packets.size(), 1u) << "the other QP's, and nothing behind the copy";
  }
  EXPECT_EQ(access.moved, 0u);
  a_.engine.transmit(a_.wire, now_);
  EXPECT_FALSE(a_.engine.has_yielded());
  EXPECT_EQ(access.moved, 1000u);
  EXPECT_EQ(a_.wire.packets.size(), 2u);
  EXPECT_EQ(a_.engine.counters().direct_operations, 1u);
  a_.engine.destroy_qp(*other_of_a);
  b_.engine.destroy_qp(*other_of_b);
}

TEST_F(EnginePair, WhatWasMovedInPartAndRefusedGoesAsPackets) {
  CountingAccess access;
  connect(QpType::kRc, 3, 65536);
  a_.engine.set_direct(&access);
  a_.qp->path.direct = true;
  access.refuses_after = 2;
  constexpr std::uint32_t kLength = 700'000;
  fill(a_, 0, kLength);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(post(a_, SendOpcode::kWrite, {a_.sge(0, kLength)}), PostError::kNone);
  a_.engine.transmit(a_.wire, now_);  // all of the first, part of the second
  run();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(a_.engine.counters().direct_operations, 1u);
  EXPECT_EQ(std::memcmp(a_.buffer.data(), b_.buffer.data(), kLength), 0);
}

// Directly or as packets, an atomic executes once.
TEST_F(EnginePair, AtomicsGoDirectOrAsPackets) {
  CountingAccess access;
  connect(QpType::kRc);
  a_.engine.set_direct(&access);
  a_.qp->path.direct = true;
  access.refuses_after = 1;
  std::uint64_t value = 40;
  std::memcpy(b_.buffer.data(), &value, 8);
  const auto add = [&](const Sge& result) {
    SendRequest request;
    request.entry.opcode = SendOpcode::kFetchAdd;
    request.entry.remote_address = reinterpret_cast<std::uint64_t>(b_.buffer.data());
    request.entry.rkey = {b_.region->key};
    request.entry.atomic = {.compare_add = 2, .swap = 0};
    request.list = {&result, 1};
    EXPECT_EQ(a_.engine.post_send(*a_.qp, request, now_), PostError::kNone);
    run();
    return a_.poll().status;
  };
  const auto at = [](const Host& host) {
    std::uint64_t read = 0;
    std::memcpy(&read, host.buffer.data(), 8);
    return read;
  };
  EXPECT_EQ(add(a_.sge(0, 8)), Status::kSuccess);
  EXPECT_EQ(at(a_), 40u);
  EXPECT_EQ(add(a_.sge(0, 8)), Status::kSuccess);  // refused, so it goes as packets
  EXPECT_EQ(at(a_), 42u);
  EXPECT_EQ(at(b_), 44u);
  EXPECT_EQ(a_.engine.counters().direct_operations, 1u);
  Sge wrong = a_.sge(0, 8);
  wrong.lkey.value ^= 1;
  EXPECT_EQ(add(wrong), Status::kLocalProtectionError);
  EXPECT_EQ(access.atomics, 2);  // the direct path was not called
}

TEST_F(EnginePair, UnreliableConnectionAndDatagram) {
  connect(QpType::kUc);
  fill(a_, 0, 3000);
  const Sge to = b_.sge(0, 4000);
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, {&to, 1}, now_), PostError::kNone);
  ASSERT_EQ(post(a_, SendOpcode::kSendImmediate, {a_.sge(0, 3000)}), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(b_.poll().byte_length, 3000u);
  EXPECT_EQ(0, std::memcmp(b_.buffer.data(), a_.buffer.data(), 3000));
}

TEST_F(EnginePair, DatagramCarriesAGrhArea) {
  connect(QpType::kUd);
  fill(a_, 0, 100);
  const Sge to = b_.sge(0, 140);
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, {&to, 1}, now_), PostError::kNone);
  objects::AddressHandle handle;
  SendRequest request;
  request.entry.opcode = SendOpcode::kSend;
  request.entry.datagram = {.handle = &handle, .qkey = 0x11, .remote_qpn = 0x11};
  const Sge from = a_.sge(0, 100);
  request.list = {&from, 1};
  ASSERT_EQ(a_.engine.post_send(*a_.qp, request, now_), PostError::kNone);
  run();
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  const Completion received = b_.poll();
  EXPECT_EQ(received.byte_length, 140u);
  EXPECT_EQ(received.source_qpn, wire::Qpn(0x10));
  EXPECT_EQ(0, std::memcmp(b_.buffer.data() + 40, a_.buffer.data(), 100));
}

// A program may write new requests faster than the engine takes them.
class EndlessReceives final : public objects::ReceiveSource {
 public:
  void refill(objects::ReceiveQueue& queue) override { (void)queue.post(next++, {}); }
  std::uint64_t next = 0;
};

TEST_F(EnginePair, ASourceThatNeverEndsIsFlushedOnce) {
  connect(QpType::kRc);
  EndlessReceives source;
  b_.qp->receive_queue.set_source(&source);
  QpAttributes attr;
  attr.state = QpState::kError;
  ASSERT_TRUE(b_.engine.modify_qp(*b_.qp, attr, kAttrState, now_));
  EXPECT_EQ(source.next, b_.qp->receive_queue.capacity());
  attr.state = QpState::kReset;
  ASSERT_TRUE(b_.engine.modify_qp(*b_.qp, attr, kAttrState, now_));
  EXPECT_EQ(source.next, 2 * b_.qp->receive_queue.capacity());
  b_.qp->receive_queue.set_source(nullptr);
}

TEST_F(EnginePair, ARegionIsRenewedInTheOrderOfTheRequests) {
  connect(QpType::kRc);
  objects::MemoryRegion& region =
      *a_.memory.register_region({.pd = &a_.pd, .host = a_.buffer.data(), .length = 0, .access = 0}).value();
  region.renewable = true;
  const std::uint32_t first = region.key, second = objects::MemoryTable::next_variant(first);
  fill(a_, 0, 64);
  ASSERT_EQ(post(a_, SendOpcode::kRead, {a_.sge(4096, 64)}), PostError::kNone);
  SendRequest invalidate;
  invalidate.entry.opcode = SendOpcode::kLocalInvalidate;
  invalidate.entry.immediate_or_key = first;
  ASSERT_EQ(a_.engine.post_send(*a_.qp, invalidate, now_), PostError::kNone);
  SendRequest renew;
  renew.entry.opcode = SendOpcode::kRenewRegion;
  renew.entry.rkey = {second};
  renew.entry.remote_address = reinterpret_cast<std::uint64_t>(a_.buffer.data());
  renew.entry.bind = {nullptr, &region, 0x1000, 64, objects::kLocalWrite};
  ASSERT_EQ(a_.engine.post_send(*a_.qp, renew, now_), PostError::kNone);
  const Sge through = {0x1000, 64, {second}};
  ASSERT_EQ(post(a_, SendOpcode::kWrite, {through}, 512), PostError::kNone);
  EXPECT_EQ(region.key, first);
  run();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(a_.poll().status, Status::kSuccess) << i;
  EXPECT_EQ(region.key, second);
  EXPECT_EQ(0, std::memcmp(b_.buffer.data() + 512, a_.buffer.data(), 64));
}

TEST_F(EnginePair, OnlyARenewableRegionOfTheDomainIsRenewed) {
  for (const bool renewable : {false, true}) {
    connect(QpType::kRc, 3, 0, renewable ? 0x20 : 0x10);
    objects::ProtectionDomain other;
    objects::MemoryRegion& region =
        *a_.memory
             .register_region(
                 {.pd = renewable ? &other : &a_.pd, .host = a_.buffer.data(), .length = 0, .access = 0})
             .value();
    region.renewable = renewable;
    SendRequest renew;
    renew.entry.opcode = SendOpcode::kRenewRegion;
    renew.entry.rkey = {objects::MemoryTable::next_variant(region.key)};
    renew.entry.bind = {nullptr, &region, 0, 64, objects::kLocalWrite};
    ASSERT_EQ(a_.engine.post_send(*a_.qp, renew, now_), PostError::kNone);
    run();
    EXPECT_EQ(a_.poll().status, Status::kWindowBindError);
    EXPECT_EQ(a_.qp->state, QpState::kError);
    ASSERT_TRUE(a_.memory.deregister(region).ok());
    for (Host* host : {&a_, &b_}) host->engine.destroy_qp(*std::exchange(host->qp, nullptr));
  }
}

}  // namespace rrdma::transport::engine_test
