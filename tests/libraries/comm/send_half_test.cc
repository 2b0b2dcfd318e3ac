// The send half alone, without a device: entries, completions for many sends, and waiters.
#include "lib/comm/send_half.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace rrdma::comm::detail::send_half_test {

constexpr std::uint32_t kRoom = 16;

struct SendQueue : testing::Test {
  void SetUp() override {
    half.open(kRoom, scratch.data(), nullptr, [](Completion*, const ibv_wc&) {});
  }
  // Takes the entry and the posting of a transfer.
  Posting* post() {
    half.occupy();
    return half.take(Posting::Kind::kTransfer);
  }

  std::array<std::byte, SendHalf::kScratch*(kRoom + SendHalf::kExtraRoom)> scratch;
  SendHalf half;
};

TEST_F(SendQueue, IsFullAfterItsRoom) {
  for (std::uint32_t i = 0; i < kRoom; ++i) {
    EXPECT_TRUE(half.has_room()) << i;
    post();
  }
  EXPECT_FALSE(half.has_room());
}

TEST_F(SendQueue, KeepsEntriesForControlMessagesAndTheMarker) {
  for (std::uint32_t i = 0; i < kRoom; ++i) post();
  for (std::uint32_t i = 0; i < SendHalf::kControlRoom; ++i) {
    EXPECT_TRUE(half.has_control_room()) << i;
    half.occupy();
    (void)half.take(Posting::Kind::kCredit);
  }
  EXPECT_FALSE(half.has_control_room());
  EXPECT_TRUE(half.has_posting()) << "the marker's";
  (void)half.take(Posting::Kind::kMarker);
  EXPECT_FALSE(half.has_posting());
}

TEST_F(SendQueue, OneCompletionFreesTheSilentSendsBeforeIt) {
  std::uint32_t sent = 1;
  Posting* signalled = half.occupy_silently();
  for (; signalled == nullptr && sent < kRoom; ++sent) signalled = half.occupy_silently();
  ASSERT_NE(signalled, nullptr) << "no completion was ever requested";
  EXPECT_EQ(sent, kRoom / 4) << "a quarter of the queue at most is silent";
  EXPECT_EQ(signalled->covers, sent);
  for (std::uint32_t i = sent; i < kRoom; ++i) half.occupy();
  EXPECT_FALSE(half.has_room());
  half.vacate(*signalled);
  for (std::uint32_t i = 0; i < sent; ++i) half.occupy();
  EXPECT_FALSE(half.has_room()) << "exactly as many as were sent are free again";
}

TEST_F(SendQueue, ATransferCoversTheSilentSendsBeforeIt) {
  EXPECT_EQ(half.occupy_silently(), nullptr);
  EXPECT_EQ(half.occupy_silently(), nullptr);
  EXPECT_EQ(post()->covers, 3u);
  EXPECT_EQ(post()->covers, 1u);
}

TEST_F(SendQueue, PostingsHaveScratchOfTheirOwnAndAreUsedAgain) {
  Posting* first = post();
  Posting* second = post();
  EXPECT_GE(std::abs(first->scratch - second->scratch), static_cast<std::ptrdiff_t>(SendHalf::kScratch));
  half.give_back(first);
  EXPECT_EQ(half.take(Posting::Kind::kProbe), first);
}

TEST_F(SendQueue, TakesEachWaiterOnce) {
  alignas(Transfer) std::array<std::byte, 2> places;
  const std::vector<Transfer*> waiters{reinterpret_cast<Transfer*>(&places[0]),
                                       reinterpret_cast<Transfer*>(&places[1])};
  for (Transfer* waiter : waiters) post()->waiter = waiter;
  post();  // nobody waits for this one
  std::size_t taken = 0;
  half.take_waiters([&](Transfer* waiter) {
    EXPECT_NE(std::find(waiters.begin(), waiters.end(), waiter), waiters.end());
    ++taken;
  });
  EXPECT_EQ(taken, waiters.size());
  half.take_waiters([](Transfer*) { FAIL() << "a waiter was taken twice"; });
}

}  // namespace rrdma::comm::detail::send_half_test
