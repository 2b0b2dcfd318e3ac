// Two engines whose memory no CPU can touch: every operation, through packets of both sizes.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "objects/test_far_memory.h"
#include "transport/test_engine_pair.h"

namespace rrdma::transport {
namespace {

using objects::FarMemory;

constexpr std::size_t kFarOctets = 4 << 20;

class FarEngines : public EnginePair {
 protected:
  void SetUp() override {
    a_far_ = open(a_, far_a_);
    b_far_ = open(b_, far_b_);
    for (std::size_t i = 0; i < kFarOctets; ++i)
      far_a_.octets[i] = static_cast<std::uint8_t>(i * 13 + i / 251);
  }
  static objects::MemoryRegion* open(Host& host, FarMemory& far) {
    host.memory.add_listener(host.engine.staging());
    return *host.memory.register_region({.pd = &host.pd,
                                         .host = FarMemory::address(0),
                                         .length = kFarOctets,
                                         .address = FarMemory::kBase,
                                         .access = objects::kLocalWrite | objects::kRemoteWrite |
                                                   objects::kRemoteRead | objects::kRemoteAtomic,
                                         .kind = host.memory.add_kind(far)});
  }
  Sge a_sge(std::size_t offset, std::uint32_t length) const {
    return {FarMemory::kBase + offset, length, {a_far_->key}};
  }
  Sge b_sge(std::size_t offset, std::uint32_t length) const {
    return {FarMemory::kBase + offset, length, {b_far_->key}};
  }
  void post_far(SendOpcode opcode, std::vector<Sge> list, std::size_t offset) {
    SendRequest request;
    request.entry.opcode = opcode;
    request.entry.remote_address = FarMemory::kBase + offset;
    request.entry.rkey = {b_far_->key};
    if (opcode == SendOpcode::kFetchAdd || opcode == SendOpcode::kCompareSwap)
      request.entry.atomic = {.compare_add = 5, .swap = 9};
    request.list = list;
    ASSERT_EQ(a_.engine.post_send(*a_.qp, request, now_), PostError::kNone);
    run();
  }
  bool same(std::size_t a, std::size_t b, std::size_t length) const {
    return std::memcmp(far_a_.octets.data() + a, far_b_.octets.data() + b, length) == 0;
  }

  FarMemory far_a_{kFarOctets}, far_b_{kFarOctets};
  objects::MemoryRegion *a_far_ = nullptr, *b_far_ = nullptr;
};

TEST_F(FarEngines, WriteAndRead) {
  for (const std::uint32_t train : {0u, 65536u}) {
    SCOPED_TRACE(train);
    connect(QpType::kRc, 3, train);
    std::ranges::fill(far_b_.octets, std::uint8_t{0});
    post_far(SendOpcode::kWrite, {a_sge(3, 1'000'001)}, 17);
    EXPECT_EQ(a_.poll().status, Status::kSuccess);
    EXPECT_TRUE(same(3, 17, 1'000'001));
    EXPECT_EQ(far_b_.octets[17 + 1'000'001], 0);
    post_far(SendOpcode::kRead, {a_sge(2'000'000, 300'000), a_.sge(5, 1000)}, 20);
    EXPECT_EQ(a_.poll().status, Status::kSuccess);
    EXPECT_TRUE(same(2'000'000, 20, 300'000));
    EXPECT_EQ(std::memcmp(a_.buffer.data() + 5, far_b_.octets.data() + 300'020, 1000), 0);
    for (Host* host : {&a_, &b_}) {
      host->engine.destroy_qp(*host->qp);
      host->qp = nullptr;
    }
  }
  EXPECT_LT(far_a_.reads, 20u) << "a copy for each packet";
  EXPECT_LT(far_b_.writes, 40u) << "a copy for each packet";
}

TEST_F(FarEngines, SendAcrossMixedLists) {
  connect(QpType::kRc);
  fill(a_, 0, 5000);
  const Sge to[] = {b_sge(1, 3333), b_.sge(100, 2000), b_sge(9000, 90'000)};
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, to, now_), PostError::kNone);
  post_far(SendOpcode::kSend, {a_sge(7, 10), a_.sge(0, 4000), a_sge(100, 50'000)}, 0);
  EXPECT_EQ(a_.poll().status, Status::kSuccess);
  EXPECT_EQ(b_.poll().byte_length, 54'010u);
  std::vector<std::uint8_t> sent(far_a_.octets.begin() + 7, far_a_.octets.begin() + 17);
  sent.insert(sent.end(), a_.buffer.begin(), a_.buffer.begin() + 4000);
  sent.insert(sent.end(), far_a_.octets.begin() + 100, far_a_.octets.begin() + 50'100);
  EXPECT_EQ(std::memcmp(sent.data(), far_b_.octets.data() + 1, 3333), 0);
  EXPECT_EQ(std::memcmp(sent.data() + 3333, b_.buffer.data() + 100, 2000), 0);
  EXPECT_EQ(std::memcmp(sent.data() + 5333, far_b_.octets.data() + 9000, sent.size() - 5333), 0);
}

// The end of the message lies in ordinary memory: it must not be seen before the rest has arrived.
TEST_F(FarEngines, TheEndInOrdinaryMemoryComesLast) {
  connect(QpType::kRc);
  const Sge to[] = {b_sge(0, 5000), b_.sge(0, 1)};
  b_.buffer[0] = 0;
  far_b_.after_write = [&] { EXPECT_EQ(b_.buffer[0], 0); };
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, to, now_), PostError::kNone);
  far_a_.octets[5000] = 1;
  post_far(SendOpcode::kSend, {a_sge(0, 5001)}, 0);
  EXPECT_EQ(b_.buffer[0], 1);
  EXPECT_TRUE(same(0, 0, 5000));
}

TEST_F(FarEngines, Atomics) {
  connect(QpType::kRc);
  const std::uint64_t five = 5;
  std::memcpy(far_b_.octets.data() + 8, &five, 8);
  const auto word = [](const FarMemory& far, std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, far.octets.data() + at, 8);
    return value;
  };
  post_far(SendOpcode::kFetchAdd, {a_sge(64, 8)}, 8);
  EXPECT_EQ(word(far_a_, 64), 5u);
  EXPECT_EQ(word(far_b_, 8), 10u);
  post_far(SendOpcode::kCompareSwap, {a_sge(64, 8)}, 8);
  EXPECT_EQ(word(far_a_, 64), 10u);
  EXPECT_EQ(word(far_b_, 8), 10u) << "10 is not 5";
  post_far(SendOpcode::kAtomicWrite, {a_sge(128, 8)}, 8);
  EXPECT_EQ(word(far_b_, 8), word(far_a_, 128));
}

TEST_F(FarEngines, UnreliableConnection) {
  connect(QpType::kUc, 3);
  const Sge to[] = {b_sge(1, 100'000)};
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, to, now_), PostError::kNone);
  post_far(SendOpcode::kSend, {a_sge(5, 70'001)}, 0);
  EXPECT_EQ(b_.poll().byte_length, 70'001u);
  EXPECT_TRUE(same(5, 1, 70'001));
}

// More messages than buffers in one turn.
TEST_F(FarEngines, MessagesWaitForBuffers) {
  connect(QpType::kRc, 3, 65536);
  SendRequest request;
  request.entry.opcode = SendOpcode::kWrite;
  request.entry.rkey = {b_far_->key};
  for (std::size_t i = 0; i < 60; ++i) {
    const std::vector<Sge> list{a_sge(i * 1000, 999)};
    request.list = list;
    request.entry.remote_address = FarMemory::kBase + i * 1000;
    ASSERT_EQ(a_.engine.post_send(*a_.qp, request, now_), PostError::kNone);
  }
  run();
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(a_.poll().status, Status::kSuccess);
    EXPECT_TRUE(same(i * 1000, i * 1000, 999));
  }
}

TEST_F(FarEngines, MemoryThatIsGoneIsAnErrorCompletion) {
  connect(QpType::kRc);
  far_a_.reachable = false;
  post_far(SendOpcode::kWrite, {a_sge(0, 5000)}, 0);
  EXPECT_EQ(a_.poll().status, Status::kLocalProtectionError);
}

TEST_F(FarEngines, ATargetThatIsGoneIsARemoteError) {
  for (const SendOpcode opcode : {SendOpcode::kWrite, SendOpcode::kRead, SendOpcode::kFetchAdd}) {
    connect(QpType::kRc);
    far_b_.reachable = false;
    post_far(opcode, {a_sge(0, opcode == SendOpcode::kFetchAdd ? 8 : 5000)}, 0);
    EXPECT_EQ(a_.poll().status, Status::kRemoteAccessError);
    for (Host* host : {&a_, &b_}) {
      host->engine.destroy_qp(*host->qp);
      host->qp = nullptr;
    }
  }
}

TEST_F(FarEngines, AReceiveBufferThatIsGoneFailsBothSides) {
  connect(QpType::kRc);
  const Sge to[] = {b_sge(0, 5000)};
  ASSERT_EQ(b_.engine.post_receive(*b_.qp, 1, to, now_), PostError::kNone);
  far_b_.breaks = true;
  post_far(SendOpcode::kSend, {a_sge(0, 5000)}, 0);
  EXPECT_EQ(b_.poll().status, Status::kLocalProtectionError);
  EXPECT_EQ(a_.poll().status, Status::kRemoteOperationError);
}

}  // namespace
}  // namespace rrdma::transport
