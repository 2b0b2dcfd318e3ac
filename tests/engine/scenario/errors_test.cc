// Refused requests: the status on each side, and the effect on other requests.
#include <gtest/gtest.h>

#include "pair.h"

namespace rrdma::scenario::errors_test {

using objects::SendOpcode;
using objects::Status;
using transport::PostError;
using transport::QpEvent;
using transport::QpState;

TEST(Errors, InTheMiddleOfAWindow) {
  Pair pair;
  for (std::uint32_t i = 0; i < 5; ++i) pair.a.write(i, i * 1000, i * 1000, 1000);
  objects::SendEntry bad = pair.a.entry(5, SendOpcode::kWrite, 100'000);
  bad.rkey.value ^= 0x100;
  ASSERT_EQ(pair.a.post(bad, 0, 1000), PostError::kNone);
  for (std::uint32_t i = 6; i < 10; ++i) pair.a.write(i, i * 1000, 200'000 + i * 1000, 1000);
  pair.a.receive(90, 0, 10);
  pair.b.receive(91, 0, 10);
  pair.run();
  EXPECT_EQ(pair.a.statuses(),
            "0: success, 1: success, 2: success, 3: success, 4: success, 5: remote access error, 6: flushed, "
            "7: flushed, "
            "8: flushed, 9: flushed, 90: flushed");
  EXPECT_EQ(pair.b.statuses(), "91: flushed");
  EXPECT_EQ(pair.b.count(QpEvent::kAccessError), 1u);
  EXPECT_EQ(pair.a.count(QpEvent::kAccessError), 0u);
  EXPECT_TRUE(pair.b.holds(0, pair.a, 0, 5000));
  EXPECT_TRUE(pair.b.untouched(5000, 500'000));
  EXPECT_EQ(pair.b.qp->state, QpState::kError);
}

struct Refused {
  const char* name;
  SendOpcode opcode;
  void (*spoil)(Pair&, objects::SendEntry&);
  Status status;
};

class RemoteErrors : public ::testing::TestWithParam<Refused> {};

TEST_P(RemoteErrors, EndTheConnectionAndTouchNothing) {
  Pair pair;
  objects::SendEntry entry = pair.a.entry(1, GetParam().opcode, 4096);
  entry.flush.placement = 1;
  if (entry.opcode == SendOpcode::kFlush) entry.length = 64;
  GetParam().spoil(pair, entry);
  ASSERT_EQ(pair.a.post(entry, 0, 8), PostError::kNone);
  pair.run();
  ASSERT_EQ(pair.a.completions.size(), 1u);
  EXPECT_EQ(pair.a.completions[0].status, GetParam().status) << pair.a.statuses();
  EXPECT_EQ(pair.b.count(GetParam().status == Status::kRemoteAccessError ? QpEvent::kAccessError
                                                                         : QpEvent::kRequestError),
            1u);
  EXPECT_TRUE(pair.b.untouched(0, Side::kMemoryOctets));
  EXPECT_TRUE(pair.a.untouched(0, Side::kMemoryOctets));
}

objects::MemoryRegion* other_region(Pair& pair, std::uint32_t access, bool other_domain) {
  static objects::ProtectionDomain domain;
  auto region = pair.b.host.memory.register_region({.pd = other_domain ? &domain : &pair.b.host.pd,
                                                    .host = pair.b.memory.data(),
                                                    .length = 8192,
                                                    .address = 0x7000'0000'0000,
                                                    .access = access});
  return *region;
}

constexpr std::uint32_t kEverything =
    objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;

void unknown_key(Pair&, objects::SendEntry& entry) { entry.rkey.value ^= 0x4200; }
void stale_variant(Pair&, objects::SendEntry& entry) { entry.rkey.value ^= 1; }
void other_domain(Pair& pair, objects::SendEntry& entry) {
  entry.rkey.value = other_region(pair, kEverything, true)->key;
}
void no_write(Pair& pair, objects::SendEntry& entry) {
  entry.rkey.value = other_region(pair, objects::kRemoteRead, false)->key;
}
void no_read(Pair& pair, objects::SendEntry& entry) {
  entry.rkey.value = other_region(pair, objects::kLocalWrite | objects::kRemoteWrite, false)->key;
}
void beyond(Pair&, objects::SendEntry& entry) {
  entry.remote_address = 0x7000'0000'0000 + Side::kMemoryOctets - 7;
}
void before(Pair&, objects::SendEntry& entry) { entry.remote_address = 0x7000'0000'0000 - 1; }
void wraps(Pair&, objects::SendEntry& entry) { entry.remote_address = ~std::uint64_t{0} - 3; }
void misaligned(Pair&, objects::SendEntry& entry) { entry.remote_address += 4; }
void no_placement(Pair&, objects::SendEntry& entry) { entry.flush.placement = 0; }
void region_key(Pair& pair, objects::SendEntry& entry) { entry.immediate_or_key = pair.b.region->key; }

INSTANTIATE_TEST_SUITE_P(
    All, RemoteErrors,
    ::testing::Values(
        Refused{"WriteUnknownKey", SendOpcode::kWrite, unknown_key, Status::kRemoteAccessError},
        Refused{"WriteStaleVariant", SendOpcode::kWrite, stale_variant, Status::kRemoteAccessError},
        Refused{"WriteOtherDomain", SendOpcode::kWrite, other_domain, Status::kRemoteAccessError},
        Refused{"WriteNotGranted", SendOpcode::kWrite, no_write, Status::kRemoteAccessError},
        Refused{"WriteBeyond", SendOpcode::kWrite, beyond, Status::kRemoteAccessError},
        Refused{"WriteBefore", SendOpcode::kWrite, before, Status::kRemoteAccessError},
        Refused{"WriteWraps", SendOpcode::kWrite, wraps, Status::kRemoteAccessError},
        Refused{"ReadUnknownKey", SendOpcode::kRead, unknown_key, Status::kRemoteAccessError},
        Refused{"ReadNotGranted", SendOpcode::kRead, no_read, Status::kRemoteAccessError},
        Refused{"ReadBeyond", SendOpcode::kRead, beyond, Status::kRemoteAccessError},
        Refused{"AtomicUnknownKey", SendOpcode::kFetchAdd, unknown_key, Status::kRemoteAccessError},
        Refused{"AtomicNotGranted", SendOpcode::kCompareSwap, no_write, Status::kRemoteAccessError},
        Refused{"AtomicMisaligned", SendOpcode::kFetchAdd, misaligned, Status::kRemoteInvalidRequest},
        Refused{"AtomicWriteMisaligned", SendOpcode::kAtomicWrite, misaligned, Status::kRemoteInvalidRequest},
        Refused{"AtomicWriteUnknownKey", SendOpcode::kAtomicWrite, unknown_key, Status::kRemoteAccessError},
        Refused{"FlushUnknownKey", SendOpcode::kFlush, unknown_key, Status::kRemoteAccessError},
        Refused{"FlushNotGranted", SendOpcode::kFlush, no_write, Status::kRemoteAccessError},
        Refused{"FlushWithoutPlacement", SendOpcode::kFlush, no_placement, Status::kRemoteInvalidRequest}),
    [](const auto& suite) { return std::string(suite.param.name); });

// The SEND arrived, so it is acknowledged; the failed invalidation is the responder's own error.
TEST(Errors, InvalidateOfARegionIsRefused) {
  Pair pair;
  pair.b.receive(7, 0, 100);
  objects::SendEntry entry = pair.a.entry(1, SendOpcode::kSendInvalidate);
  region_key(pair, entry);
  ASSERT_EQ(pair.a.post(entry, 0, 8), PostError::kNone);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_EQ(pair.b.statuses(), "7: remote invalid request");
  EXPECT_NE(pair.b.host.memory.find_region(pair.b.region->key), nullptr);
}

TEST(Errors, TheQpsOwnAccessFlagsComeFirst) {
  for (const SendOpcode opcode : {SendOpcode::kWrite, SendOpcode::kRead, SendOpcode::kFetchAdd}) {
    PairOptions options;
    options.access = objects::kLocalWrite;
    Pair pair(options);
    ASSERT_EQ(pair.a.post(pair.a.entry(1, opcode, 0), 0, 8), PostError::kNone);
    pair.run();
    EXPECT_EQ(pair.a.statuses(), "1: remote invalid request") << static_cast<int>(opcode);
  }
}

TEST(Errors, ZeroLengthRequestsDoNotLookAtTheKey) {
  for (const SendOpcode opcode : {SendOpcode::kWrite, SendOpcode::kRead}) {
    Pair pair;
    objects::SendEntry entry = pair.a.entry(1, opcode, 0);
    entry.rkey.value = 0;
    entry.remote_address = 0;
    ASSERT_EQ(pair.a.post(entry, 0, 0), PostError::kNone);
    pair.run();
    EXPECT_EQ(pair.a.statuses(), "1: success");
  }
}

TEST(Errors, MoreReadsAtOnceThanTheOtherSideTakes) {
  PairOptions options;
  options.max_reads = 8;
  options.max_destination_reads = 2;
  Pair pair(options);
  for (std::uint32_t i = 0; i < 8; ++i) pair.a.read(i, i * 8192, 0, 8192);
  pair.b.host.pause_until(Instant{} + microseconds(50));  // so that they arrive together
  pair.run();
  ASSERT_EQ(pair.a.completions.size(), 8u);
  EXPECT_EQ(pair.a.completions.back().status, Status::kFlushed) << pair.a.statuses();
  EXPECT_NE(pair.a.statuses().find("remote invalid request"), std::string::npos) << pair.a.statuses();
}

TEST(Errors, ReadsWhereNoneAreAllowed) {
  PairOptions options;
  options.max_reads = 0;
  Pair pair(options);
  pair.a.read(1, 0, 0, 100);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: local QP operation error");
}

TEST(Errors, ALocalMistakeFailsHereAndOnlyHere) {
  Pair pair;
  pair.a.write(1, 0, 0, 100);
  const objects::Sge bad{0x7000'0000'0000, 100, wire::LKey{pair.a.region->key ^ 0x8000}};
  ASSERT_EQ(pair.a.host.engine.post_send(*pair.a.qp, {pair.a.entry(2, SendOpcode::kWrite, 4096), {&bad, 1}},
                                         pair.world.now()),
            PostError::kNone);
  pair.a.write(3, 0, 8192, 100);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success, 2: local protection error, 3: flushed");
  EXPECT_EQ(objects::cause_of(pair.a.completions[1].vendor_err), objects::Cause::kLocalKeyUnknown);
  EXPECT_EQ(pair.b.qp->state, QpState::kReadyToSend);
  EXPECT_TRUE(pair.b.untouched(4096, 8192));
}

TEST(Errors, ARegionThatGoesAwayUnderARead) {
  Pair pair;
  ASSERT_TRUE(pair.b.host.memory.deregister(*pair.b.region).ok());
  pair.b.region = pair.a.region;  // only so that the test can still name an address
  pair.a.read(1, 0, 0, 5000);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: remote access error");
  EXPECT_TRUE(pair.a.untouched(0, 8192));
}

TEST(Windows, Type2LivesFromBindToInvalidate) {
  Pair pair;
  auto window = pair.b.host.memory.allocate_window(pair.b.host.pd, objects::WindowType::kType2);
  ASSERT_TRUE(window.ok());
  const std::uint32_t key = objects::MemoryTable::next_variant((*window)->key);
  objects::SendEntry bind = pair.b.entry(1, SendOpcode::kBindWindow);
  bind.bind = {*window, pair.b.region, 0x7000'0000'0000 + 4096, 4096, objects::kRemoteWrite};
  bind.rkey.value = key;
  ASSERT_EQ(pair.b.post(bind, 0, 0), PostError::kNone);
  pair.run(milliseconds(1));
  ASSERT_EQ(pair.b.statuses(), "1: success");

  objects::SendEntry write = pair.a.entry(2, SendOpcode::kWrite, 5000);
  write.rkey.value = key;
  ASSERT_EQ(pair.a.post(write, 0, 500), PostError::kNone);
  pair.b.receive(7, 0, 100);
  objects::SendEntry invalidate = pair.a.entry(3, SendOpcode::kSendInvalidate);
  invalidate.immediate_or_key = key;
  ASSERT_EQ(pair.a.post(invalidate, 0, 10), PostError::kNone);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "2: success, 3: success");
  EXPECT_TRUE(pair.b.holds(5000, pair.a, 0, 500));
  EXPECT_EQ(pair.b.completions.back().flags, objects::kWithInvalidate);
  EXPECT_EQ(pair.b.completions.back().immediate_or_key, key);

  write.wr_id = 4;
  ASSERT_EQ(pair.a.post(write, 1000, 500), PostError::kNone);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "2: success, 3: success, 4: remote access error");
  EXPECT_TRUE(pair.b.holds(5000, pair.a, 0, 500));  // not what arrived too late
}

TEST(Windows, Type1GrantsToEveryQpUntilItIsBoundAnew) {
  Pair pair;
  auto window = pair.b.host.memory.allocate_window(pair.b.host.pd, objects::WindowType::kType1);
  ASSERT_TRUE(window.ok());
  const std::uint32_t first = objects::MemoryTable::next_variant((*window)->key);
  objects::SendEntry bind = pair.b.entry(1, SendOpcode::kBindWindow);
  bind.bind = {*window, pair.b.region, 0x7000'0000'0000, 4096, objects::kRemoteWrite | objects::kRemoteRead};
  bind.rkey.value = first;
  ASSERT_EQ(pair.b.post(bind, 0, 0), PostError::kNone);
  pair.run(milliseconds(1));
  ASSERT_EQ(pair.b.statuses(), "1: success");
  objects::SendEntry write = pair.a.entry(2, SendOpcode::kWrite, 100);
  write.rkey.value = first;
  ASSERT_EQ(pair.a.post(write, 0, 50), PostError::kNone);
  pair.run(milliseconds(1));
  EXPECT_EQ(pair.a.statuses(), "2: success");
  bind.wr_id = 2;
  bind.rkey.value = objects::MemoryTable::next_variant(first);
  bind.bind.address += 4096;
  ASSERT_EQ(pair.b.post(bind, 0, 0), PostError::kNone);
  pair.run(milliseconds(1));
  write.wr_id = 3;
  ASSERT_EQ(pair.a.post(write, 0, 50), PostError::kNone);  // with the old key
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "2: success, 3: remote access error");
}

TEST(Windows, ABindBeyondTheRegionIsRefused) {
  Pair pair;
  auto window = pair.b.host.memory.allocate_window(pair.b.host.pd, objects::WindowType::kType2);
  ASSERT_TRUE(window.ok());
  objects::SendEntry bind = pair.b.entry(1, SendOpcode::kBindWindow);
  bind.bind = {*window, pair.b.region, 0x7000'0000'0000 + 1, Side::kMemoryOctets, objects::kRemoteRead};
  bind.rkey.value = objects::MemoryTable::next_variant((*window)->key);
  ASSERT_EQ(pair.b.post(bind, 0, 0), PostError::kNone);
  pair.run();
  EXPECT_EQ(pair.b.statuses(), "1: memory window bind error");
}

// The request waits behind a READ; its region or window is gone when its turn comes.
TEST(Windows, ABindWhoseRegionOrWindowHasGoneIsRefused) {
  for (const bool window_goes : {false, true}) {
    Pair pair;
    auto window = pair.b.host.memory.allocate_window(pair.b.host.pd, objects::WindowType::kType2);
    ASSERT_TRUE(window.ok());
    auto region = pair.b.host.memory.register_region({.pd = &pair.b.host.pd,
                                                      .host = pair.b.region->host,
                                                      .length = 4096,
                                                      .address = 0x6000'0000'0000,
                                                      .access = objects::kLocalWrite | objects::kWindowBind});
    ASSERT_TRUE(region.ok());
    pair.b.read(1, 0, 0, 500);
    objects::SendEntry bind = pair.b.entry(2, SendOpcode::kBindWindow);
    bind.bind = {*window, *region, 0x6000'0000'0000, 4096, objects::kRemoteRead};
    bind.rkey.value = objects::MemoryTable::next_variant((*window)->key);
    bind.flags |= objects::kSendFence;
    ASSERT_EQ(pair.b.post(bind, 0, 0), PostError::kNone);
    if (window_goes) {
      pair.b.host.memory.free_window(**window);
    } else {
      ASSERT_TRUE(pair.b.host.memory.deregister(**region).ok());
    }
    pair.run();
    EXPECT_EQ(pair.b.statuses(), "1: success, 2: memory window bind error");
  }
}

}  // namespace rrdma::scenario::errors_test
