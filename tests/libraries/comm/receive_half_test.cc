// The receive half alone, without a device: receives in chains, and messages in the order of their arrival.
#include "lib/comm/receive_half.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace rrdma::comm::detail::receive_half_test {

constexpr std::uint32_t kDepth = 20;
constexpr std::uint32_t kLimit = 100;
constexpr std::uint32_t kKey = 7;

ReceiveSlot* slot_of(const ibv_recv_wr& request) {
  return static_cast<ReceiveSlot*>(reinterpret_cast<Completion*>(request.wr_id));
}

struct Receives : testing::Test {
  Receives() : memory(ReceiveHalf::stride_of(kLimit) * kDepth) {
    half.open(kDepth, kLimit, memory.data(), kKey, nullptr, [](Completion*, const ibv_wc&) {});
  }
  // Posts everything that is released and returns it.
  std::vector<ReceiveSlot*> post_all() {
    std::vector<ReceiveSlot*> slots;
    while (half.has_released()) {
      ReceiveChain chain;
      half.fill(chain);
      half.count_posted(chain.count);
      for (std::uint32_t i = 0; i < chain.count; ++i) slots.push_back(slot_of(chain.requests[i]));
    }
    return slots;
  }
  // A message arrives in the slot.
  void arrive(ReceiveSlot* slot) {
    half.count_completed();
    half.number(slot);
    half.keep(slot);
  }

  std::vector<std::byte> memory;
  ReceiveHalf half;
};

TEST_F(Receives, AreAllReleasedAtFirstAndComeInChains) {
  ReceiveChain chain;
  half.fill(chain);
  EXPECT_EQ(chain.count, ReceiveChain::kMost);
  EXPECT_EQ(chain.counting, 0u) << "none has held a message";
  EXPECT_EQ(chain.requests[0].next, &chain.requests[1]);
  EXPECT_EQ(chain.requests[chain.count - 1].next, nullptr);
  half.fill(chain);
  EXPECT_EQ(chain.count, kDepth - ReceiveChain::kMost);
  EXPECT_EQ(chain.requests[chain.count - 1].next, nullptr);
  EXPECT_FALSE(half.has_released());
}

TEST_F(Receives, LieInTheMemoryWithoutTouchingEachOther) {
  ReceiveChain chain;
  std::set<std::uint64_t> ends;
  while (half.has_released()) {
    half.fill(chain);
    for (std::uint32_t i = 0; i < chain.count; ++i) {
      const ibv_sge& part = chain.parts[i];
      EXPECT_EQ(part.length, kLimit + sizeof(MessageHeader));
      EXPECT_EQ(part.lkey, kKey);
      EXPECT_GE(part.addr, reinterpret_cast<std::uintptr_t>(memory.data()));
      EXPECT_LE(part.addr + part.length, reinterpret_cast<std::uintptr_t>(memory.data() + memory.size()));
      if (!ends.empty()) {
        EXPECT_GE(part.addr, *ends.rbegin());
      }
      ends.insert(part.addr + part.length);
    }
  }
  EXPECT_EQ(ends.size(), kDepth);
}

TEST_F(Receives, CountThoseThatHeldMessages) {
  const auto slots = post_all();
  slots[3]->counts = true;
  half.release(slots[3]);
  half.release(slots[4]);
  ReceiveChain chain;
  half.fill(chain);
  EXPECT_EQ(chain.count, 2u);
  EXPECT_EQ(chain.counting, 1u);
}

TEST_F(Receives, AreDrainedWhenAllHaveCompleted) {
  EXPECT_TRUE(half.drained());
  const auto slots = post_all();
  for (ReceiveSlot* slot : slots) {
    EXPECT_FALSE(half.drained());
    arrive(slot);
  }
  EXPECT_TRUE(half.drained());
}

TEST_F(Receives, MessagesComeInTheOrderOfArrival) {
  const auto slots = post_all();
  arrive(slots[5]);
  arrive(slots[2]);
  EXPECT_EQ(half.take_message(), slots[5]);
  EXPECT_EQ(half.take_message(), slots[2]);
  EXPECT_EQ(half.take_message(), nullptr);
}

TEST_F(Receives, AMessageThatWasPutBackKeepsItsPlace) {
  const auto slots = post_all();
  for (int i = 0; i < 4; ++i) arrive(slots[i]);
  ReceiveSlot* first = half.take_message();
  ReceiveSlot* second = half.take_message();
  half.put_back(second);
  half.put_back(first);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(half.take_message(), slots[i]) << i;
  half.put_back(slots[3]);
  half.put_back(slots[1]);
  EXPECT_EQ(half.take_message(), slots[1]);
  EXPECT_EQ(half.take_message(), slots[3]);
}

}  // namespace rrdma::comm::detail::receive_half_test
