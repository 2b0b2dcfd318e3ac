#include "objects/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/prng.h"

namespace rrdma::objects::work_queue_test {

// Requests that lie elsewhere, three at a time.
class Elsewhere final : public ReceiveSource {
 public:
  void refill(ReceiveQueue& queue) override {
    ++calls;
    for (int i = 0; i < 3 && next < last; ++i) EXPECT_TRUE(queue.post(next++, {}));
  }
  std::uint64_t next = 0, last = 0;
  int calls = 0;
};

TEST(ReceiveQueue, AsksItsSourceOnlyWhenItIsEmpty) {
  ReceiveQueue queue(4, 1);
  Elsewhere source;
  queue.set_source(&source);
  ReceiveEntry entry;
  Sge list[1];
  EXPECT_FALSE(queue.take(entry, list));
  source.last = 4;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.take(entry, list));
    EXPECT_EQ(entry.wr_id, i);
  }
  EXPECT_EQ(source.calls, 3);
  EXPECT_FALSE(queue.take(entry, list));
}

TEST(SendQueue, HoldsAsManyEntriesAsItWasAskedForAndWraps) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 5u, 8u, 13u}) {
    SendQueue queue(capacity, 4, 32);
    EXPECT_TRUE(queue.empty());
    std::uint64_t next = 0, oldest = 0;
    Prng prng(capacity);
    for (int step = 0; step < 1000; ++step) {
      if (!queue.full() && prng.below(2) == 0) {
        SendEntry& entry = queue.reserve();
        entry.wr_id = next;
        entry.sge_count = 4;
        for (std::uint32_t i = 0; i < 4; ++i)
          queue.sges(queue.tail())[i] = {.address = next, .length = i, .lkey = {7}};
        queue.publish();
        ++next;
      } else if (!queue.empty()) {
        EXPECT_EQ(queue.at(queue.head()).wr_id, oldest);
        for (std::uint64_t i = queue.head(); i != queue.tail(); ++i) {
          ASSERT_EQ(queue.list(i).size(), 4u);
          EXPECT_EQ(queue.list(i)[3].address, oldest + (i - queue.head()));
          EXPECT_EQ(queue.list(i)[3].length, 3u);
        }
        queue.retire();
        ++oldest;
      }
      EXPECT_EQ(queue.full(), next - oldest == capacity);
      EXPECT_EQ(queue.empty(), next == oldest);
    }
  }
}

TEST(SendQueue, AReservedEntryStartsFromDefaultsAndABatchIsPublishedAtOnce) {
  SendQueue queue(4, 1, 0);
  for (std::uint64_t lap = 0; lap < 3; ++lap) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      SendEntry& entry = queue.reserve(i);
      EXPECT_EQ(entry.packet_count, 0u);
      EXPECT_EQ(entry.flags, 0u);
      EXPECT_FALSE(entry.answered);
      EXPECT_EQ(entry.atomic.compare_add, 0u);
      entry.packet_count = 9;
      entry.flags = kSendSignaled;
      entry.answered = true;
      entry.atomic.compare_add = 5;
      entry.wr_id = i;
    }
    EXPECT_TRUE(queue.empty());
    queue.publish(4);
    EXPECT_TRUE(queue.full());
    for (std::uint64_t i = 0; i < 4; ++i, queue.retire()) EXPECT_EQ(queue.at(queue.head()).wr_id, i);
  }
}

TEST(SendQueue, InlineDataOfNeighboursDoesNotTouch) {
  SendQueue queue(8, 1, kInlineMax);
  for (int i = 0; i < 8; ++i) {
    queue.reserve().flags = kSendInline;
    std::memset(queue.inline_data(queue.tail()), i + 1, kInlineMax);
    queue.publish();
  }
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(queue.at(i).is_inline());
    for (std::uint32_t k = 0; k < kInlineMax; ++k) ASSERT_EQ(queue.inline_data(i)[k], i + 1);
  }
}

TEST(SendQueue, AQueueOfNoEntriesIsAlwaysFull) {
  SendQueue queue(0, 0, 0);
  EXPECT_TRUE(queue.full());
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueueDeathTest, OurOwnMistakesStopTheProgram) {
  EXPECT_DEATH(SendQueue(kQueueEntriesMax + 1, 1, 0), "internal error");
  EXPECT_DEATH(SendQueue(1, kSgeMax + 1, 0), "internal error");
  SendQueue queue(1, 1, 0);
  EXPECT_DEATH(queue.retire(), "internal error");
  EXPECT_DEATH(queue.publish(2), "internal error");
}

class Limits : public LimitListener {
 public:
  void on_limit(ReceiveQueue&) override { ++events; }
  int events = 0;
};

struct Taken {
  ReceiveEntry entry;
  Sge list[kSgeMax];
};

bool post(ReceiveQueue& queue, std::uint64_t wr_id, std::uint32_t sges = 1) {
  std::vector<Sge> list(sges);
  for (std::uint32_t i = 0; i < sges; ++i) list[i] = {.address = wr_id * 100 + i, .length = i, .lkey = {3}};
  return queue.post(wr_id, list);
}

TEST(ReceiveQueue, BehavesAsABoundedQueue) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 7u, 16u}) {
    ReceiveQueue queue(capacity, kSgeMax);
    std::deque<std::uint64_t> model;
    Prng prng(capacity);
    std::uint64_t next = 0;
    for (int step = 0; step < 2000; ++step) {
      if (prng.below(2) == 0) {
        const bool fits = model.size() < capacity;
        ASSERT_EQ(post(queue, next, static_cast<std::uint32_t>(next % (kSgeMax + 1))), fits);
        if (fits) model.push_back(next++);
      } else {
        Taken taken;
        ASSERT_EQ(queue.take(taken.entry, taken.list), !model.empty());
        if (model.empty()) continue;
        EXPECT_EQ(taken.entry.wr_id, model.front());
        EXPECT_EQ(taken.entry.sge_count, model.front() % (kSgeMax + 1));
        for (std::uint32_t i = 0; i < taken.entry.sge_count; ++i) {
          EXPECT_EQ(taken.list[i].address, model.front() * 100 + i);
          EXPECT_EQ(taken.list[i].length, i);
        }
        model.pop_front();
      }
      ASSERT_EQ(queue.size(), model.size());
      ASSERT_EQ(queue.empty(), model.empty());
    }
  }
}

TEST(ReceiveQueue, ResizingKeepsWhatIsQueuedWhereverTheRingStands) {
  for (std::uint32_t turn = 0; turn < 8; ++turn) {
    ReceiveQueue queue(5, 2);
    Taken taken;
    for (std::uint32_t i = 0; i < turn; ++i) {
      ASSERT_TRUE(post(queue, 99));
      ASSERT_TRUE(queue.take(taken.entry, taken.list));
    }
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(post(queue, i, 2));
    EXPECT_FALSE(queue.resize(3));
    EXPECT_EQ(queue.capacity(), 5u);
    ASSERT_TRUE(queue.resize(4));
    EXPECT_FALSE(post(queue, 4));
    ASSERT_TRUE(queue.resize(9));
    for (std::uint64_t i = 4; i < 9; ++i) ASSERT_TRUE(post(queue, i, 2));
    EXPECT_FALSE(post(queue, 9));
    for (std::uint64_t i = 0; i < 9; ++i) {
      ASSERT_TRUE(queue.take(taken.entry, taken.list));
      EXPECT_EQ(taken.entry.wr_id, i);
      EXPECT_EQ(taken.list[1].address, i * 100 + 1);
    }
  }
}

TEST(ReceiveQueue, TheLimitEventComesOnceForEachArm) {
  Limits limits;
  ReceiveQueue queue(8, 1, &limits);
  Taken taken;
  const auto take = [&] { ASSERT_TRUE(queue.take(taken.entry, taken.list)); };
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(post(queue, i));
  take();
  EXPECT_EQ(limits.events, 0);  // never armed
  queue.arm_limit(5);
  EXPECT_EQ(queue.limit(), 5u);
  take();
  take();
  EXPECT_EQ(limits.events, 0);  // 5 are left: not fewer than 5
  take();
  EXPECT_EQ(limits.events, 1);
  EXPECT_EQ(queue.limit(), 0u);
  take();
  EXPECT_EQ(limits.events, 1);
  queue.arm_limit(3);
  EXPECT_EQ(limits.events, 1);
  take();
  EXPECT_EQ(limits.events, 2);
  queue.arm_limit(2);
  queue.arm_limit(0);  // disarmed
  take();
  take();
  EXPECT_EQ(limits.events, 2);
  EXPECT_FALSE(queue.take(taken.entry, taken.list));
  EXPECT_EQ(limits.events, 2);
}

TEST(ReceiveQueue, OneThreadPostsWhileAnotherTakes) {
  constexpr std::uint64_t kCount = 200'000;
  ReceiveQueue queue(7, 3);
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kCount;) {
      if (post(queue, i, 3)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kCount;) {
    Taken taken;
    if (!queue.take(taken.entry, taken.list)) {
      std::this_thread::yield();
      continue;
    }
    wrong += taken.entry.wr_id != i || taken.entry.sge_count != 3 || taken.list[2].address != i * 100 + 2;
    ++i;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(queue.empty());
}

}  // namespace rrdma::objects::work_queue_test
