// The facts that the engine reports about a failed request, from which `rrdma explain` forms its sentence.
#include <gtest/gtest.h>

#include "pair.h"

namespace rrdma::scenario::explained_test {

using objects::Cause;
using objects::CompletionOpcode;
using objects::SendOpcode;
using objects::Status;
using transport::Attempt;
using transport::FailedRequest;

// The only failure that was reported to a side.
const FailedRequest& only(const Side& side) {
  static const FailedRequest none;
  EXPECT_EQ(side.failures.size(), 1u);
  return side.failures.empty() ? none : side.failures.front().request;
}

TEST(Explained, SilenceWithTheTimeOfEachRetry) {
  PairOptions options;
  options.retry_count = 3;
  Pair pair(options);
  pair.silence(pair.b);
  pair.a.write(7, 0, 4096, 3000);
  pair.a.write(8, 0, 4096, 10);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "7: transport retry counter exceeded, 8: flushed");
  const FailedRequest& failed = only(pair.a);
  EXPECT_EQ(failed.side, FailedRequest::Side::kSend);
  EXPECT_EQ(failed.status, Status::kRetryExceeded);
  EXPECT_EQ(failed.cause, Cause::kPeerSilent);
  EXPECT_EQ(failed.opcode, CompletionOpcode::kWrite);
  EXPECT_EQ(failed.wr_id, 7u);
  EXPECT_EQ(failed.length, 3000u);
  EXPECT_EQ(failed.moved, 0u);
  EXPECT_EQ(failed.psn, wire::Psn(100));
  EXPECT_EQ(failed.peer_qpn, pair.b.qp->qpn);
  EXPECT_EQ(failed.peer, pair.a.qp->path.remote);
  EXPECT_EQ(failed.syndrome, 0);
  const auto& told = pair.a.failures.front();
  ASSERT_EQ(told.attempts.size(), 3u);
  const Duration timeout = pair.a.qp->ack_timeout;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(told.attempts[i].why, Attempt::Why::kSilence);
    EXPECT_GE((told.attempts[i].at - told.since).ns, timeout.ns * static_cast<std::int64_t>(i + 1));
  }
  EXPECT_GE((failed.at - told.since).ns, timeout.ns * 4);
}

TEST(Explained, ProgressForgetsEarlierRetries) {
  PairOptions options;
  options.retry_count = 2;
  Pair pair(options);
  pair.lose(pair.a, psn_is(100), 2);
  pair.a.write(1, 0, 0, 100);
  pair.run();
  EXPECT_EQ(pair.a.statuses(), "1: success");
  EXPECT_TRUE(pair.a.failures.empty());
  EXPECT_EQ(pair.a.qp->req.attempts, 0);
}

TEST(Explained, ReceiverNotReady) {
  PairOptions options;
  options.rnr_retry = 2;
  options.min_rnr_timer = 5;
  Pair pair(options);
  pair.a.send(1, 2500);
  pair.run();
  const FailedRequest& failed = only(pair.a);
  EXPECT_EQ(failed.status, Status::kRnrRetryExceeded);
  EXPECT_EQ(failed.cause, Cause::kPeerNotReady);
  EXPECT_EQ(failed.syndrome, wire::kSyndromeRnrBase | 5);
  ASSERT_EQ(pair.a.failures.front().attempts.size(), 2u);
  EXPECT_EQ(pair.a.failures.front().attempts[1].why, Attempt::Why::kNotReady);
  EXPECT_TRUE(pair.b.failures.empty());
}

TEST(Explained, BothSidesOfARefusedWrite) {
  Pair pair;
  objects::SendEntry bad = pair.a.entry(5, SendOpcode::kWrite, 8192);
  bad.rkey.value ^= 0x4200;
  ASSERT_EQ(pair.a.post(bad, 0, 1000), transport::PostError::kNone);
  pair.run();
  const FailedRequest& here = only(pair.a);
  EXPECT_EQ(here.cause, Cause::kPeerSaidAccessError);
  EXPECT_EQ(here.syndrome,
            wire::kSyndromeNakBase | static_cast<std::uint8_t>(wire::NakCode::kRemoteAccessError));
  EXPECT_EQ(here.rkey, bad.rkey);
  EXPECT_EQ(here.remote_address, bad.remote_address);
  const FailedRequest& there = only(pair.b);
  EXPECT_EQ(there.side, FailedRequest::Side::kRefused);
  EXPECT_EQ(there.status, Status::kRemoteAccessError);
  EXPECT_EQ(there.cause, Cause::kRemoteKeyUnknown);
  EXPECT_EQ(there.opcode, CompletionOpcode::kWrite);
  EXPECT_EQ(there.rkey, bad.rkey);
  EXPECT_EQ(there.remote_address, bad.remote_address);
  EXPECT_EQ(there.length, 1000u);
  EXPECT_EQ(there.psn, wire::Psn(100));
  EXPECT_EQ(there.peer_qpn, pair.a.qp->qpn);
}

TEST(Explained, AReceiveThatIsTooSmall) {
  Pair pair;
  pair.b.receive(90, 0, 1500);
  pair.a.send(1, 3000);
  pair.run();
  const FailedRequest& there = only(pair.b);
  EXPECT_EQ(there.side, FailedRequest::Side::kReceive);
  EXPECT_EQ(there.status, Status::kLocalLengthError);
  EXPECT_EQ(there.cause, Cause::kReceiveBufferTooSmall);
  EXPECT_EQ(there.wr_id, 90u);
  EXPECT_EQ(there.length, 1500u);
  EXPECT_EQ(there.moved, 1024u);
  EXPECT_EQ(only(pair.a).cause, Cause::kPeerSaidInvalidRequest);
  EXPECT_EQ(only(pair.a).moved, 1024u);
}

TEST(Explained, FlushesAreCounted) {
  Pair pair;
  for (std::uint32_t i = 0; i < 5; ++i) pair.a.receive(90 + i, 0, 10);
  objects::SendEntry bad = pair.a.entry(1, SendOpcode::kRead, 0);
  bad.rkey.value ^= 0x4200;
  ASSERT_EQ(pair.a.post(bad, 0, 8), transport::PostError::kNone);
  for (std::uint32_t i = 2; i < 5; ++i) pair.a.write(i, 0, 0, 8);
  pair.run();
  EXPECT_EQ(only(pair.a).opcode, CompletionOpcode::kRead);
  EXPECT_EQ(pair.a.flushed_sends, 3u);
  EXPECT_EQ(pair.a.flushed_receives, 5u);
}

}  // namespace rrdma::scenario::explained_test
