#include "objects/completion_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace rrdma::objects::completion_queue_test {

class Events : public CompletionListener {
 public:
  void on_completion(CompletionQueue&) override { ++completions; }
  void on_overflow(CompletionQueue&) override { ++overflows; }
  std::atomic<int> completions{0};
  std::atomic<int> overflows{0};
};

Completion completion(std::uint64_t wr_id, bool solicited = false, Status status = Status::kSuccess) {
  return {.wr_id = wr_id,
          .status = status,
          .solicited = solicited,
          .qpn = wire::Qpn(static_cast<std::uint32_t>(wr_id % 3))};
}

std::vector<std::uint64_t> drain(CompletionQueue& queue) {
  std::vector<std::uint64_t> ids;
  for (Completion out[3]; const std::size_t n = queue.poll(out);) {
    for (std::size_t i = 0; i < n; ++i) ids.push_back(out[i].wr_id);
  }
  return ids;
}

TEST(CompletionQueue, FirstInFirstOutThroughManyLaps) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 5u, 64u}) {
    CompletionQueue queue(capacity, nullptr);
    std::uint64_t in = 0, out = 0;
    for (int lap = 0; lap < 50; ++lap) {
      for (std::uint32_t i = 0; i < capacity; ++i) queue.push(completion(in++));
      EXPECT_EQ(queue.size(), capacity);
      for (const auto id : drain(queue)) EXPECT_EQ(id, out++);
      EXPECT_EQ(out, in);
    }
    EXPECT_FALSE(queue.overflowed());
  }
}

TEST(CompletionQueue, PollingTakesNoMoreThanThereIsRoomFor) {
  CompletionQueue queue(8, nullptr);
  for (std::uint64_t i = 0; i < 5; ++i) queue.push(completion(i));
  Completion out[8];
  EXPECT_EQ(queue.poll(std::span(out, 0)), 0u);
  EXPECT_EQ(queue.poll(std::span(out, 2)), 2u);
  EXPECT_EQ(out[1].wr_id, 1u);
  EXPECT_EQ(queue.poll(out), 3u);
  EXPECT_EQ(out[2].wr_id, 4u);
  EXPECT_EQ(queue.poll(out), 0u);
}

TEST(CompletionQueue, PeekAndPopGoOneByOne) {
  CompletionQueue queue(4, nullptr);
  EXPECT_EQ(queue.peek(), nullptr);
  queue.push(completion(1));
  queue.push(completion(2));
  ASSERT_NE(queue.peek(), nullptr);
  EXPECT_EQ(queue.peek()->wr_id, 1u);
  EXPECT_EQ(queue.peek()->wr_id, 1u);
  queue.pop();
  EXPECT_EQ(queue.peek()->wr_id, 2u);
  queue.pop();
  EXPECT_EQ(queue.peek(), nullptr);
}

TEST(CompletionQueue, AnArmRaisesOneEvent) {
  Events events;
  CompletionQueue queue(16, &events);
  queue.push(completion(0));
  EXPECT_EQ(events.completions, 0);
  queue.arm(false);
  EXPECT_EQ(events.completions, 0);  // completions already queued do not count
  queue.push(completion(1));
  EXPECT_EQ(events.completions, 1);
  queue.push(completion(2));
  EXPECT_EQ(events.completions, 1);
  queue.arm(false);
  queue.arm(false);
  queue.push(completion(3));
  queue.push(completion(4));
  EXPECT_EQ(events.completions, 2);
}

TEST(CompletionQueue, ASolicitedArmWaitsForASolicitedOrFailedOne) {
  Events events;
  CompletionQueue queue(16, &events);
  queue.arm(true);
  queue.push(completion(0));
  EXPECT_EQ(events.completions, 0);
  queue.push(completion(1, true));
  EXPECT_EQ(events.completions, 1);
  queue.push(completion(2, true));
  EXPECT_EQ(events.completions, 1);
  queue.arm(true);
  queue.push(completion(3, false, Status::kFlushed));
  EXPECT_EQ(events.completions, 2);
}

TEST(CompletionQueue, TheStrongerArmWins) {
  Events events;
  CompletionQueue queue(16, &events);
  queue.arm(false);
  queue.arm(true);
  queue.push(completion(0));
  EXPECT_EQ(events.completions, 1);
  queue.arm(true);
  queue.arm(false);
  queue.push(completion(1));
  EXPECT_EQ(events.completions, 2);
}

TEST(CompletionQueue, WithoutEventsAnArmIsIdleAndAnOverflowIsTold) {
  Events events;
  CompletionQueue queue(3, &events, false);
  queue.arm(false);
  for (std::uint64_t i = 0; i < 3; ++i) queue.push(completion(i));
  EXPECT_EQ(events.completions, 0);
  EXPECT_EQ(events.overflows, 0);
  EXPECT_EQ(queue.size(), 3u);
  queue.push(completion(3));
  EXPECT_EQ(events.overflows, 1);
  EXPECT_TRUE(queue.overflowed());
}

TEST(CompletionQueue, OverflowIsToldOnceAndPoisons) {
  Events events;
  CompletionQueue queue(3, &events);
  for (std::uint64_t i = 0; i < 3; ++i) queue.push(completion(i));
  EXPECT_EQ(events.overflows, 0);
  EXPECT_FALSE(queue.overflowed());
  queue.arm(false);
  queue.push(completion(3));
  EXPECT_EQ(events.overflows, 1);
  EXPECT_EQ(events.completions, 0);
  EXPECT_TRUE(queue.overflowed());
  EXPECT_EQ(drain(queue), (std::vector<std::uint64_t>{0, 1, 2}));
  queue.push(completion(4));
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(events.overflows, 1);
}

TEST(CompletionQueue, ResizingKeepsWhatIsQueuedWhereverTheRingStands) {
  for (std::uint64_t turn = 0; turn < 8; ++turn) {
    CompletionQueue queue(5, nullptr);
    for (std::uint64_t i = 0; i < turn; ++i) {
      queue.push(completion(99));
      queue.pop();
    }
    for (std::uint64_t i = 0; i < 4; ++i) queue.push(completion(i));
    EXPECT_FALSE(queue.resize(3));
    EXPECT_EQ(queue.capacity(), 5u);
    ASSERT_TRUE(queue.resize(4));
    EXPECT_EQ(queue.capacity(), 4u);
    ASSERT_TRUE(queue.resize(100));
    for (std::uint64_t i = 4; i < 100; ++i) queue.push(completion(i));
    EXPECT_FALSE(queue.overflowed());
    const auto ids = drain(queue);
    ASSERT_EQ(ids.size(), 100u);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(ids[i], i);
  }
}

TEST(CompletionQueue, PurgingRemovesOneQpAndKeepsTheOrderOfTheOthers) {
  for (std::uint64_t turn = 0; turn < 8; ++turn) {
    CompletionQueue queue(8, nullptr);
    for (std::uint64_t i = 0; i < turn; ++i) {
      queue.push(completion(99));
      queue.pop();
    }
    for (std::uint64_t i = 0; i < 8; ++i) queue.push(completion(i));
    queue.purge(wire::Qpn(1));
    queue.purge(wire::Qpn(7));
    EXPECT_EQ(queue.size(), 5u);
    queue.push(completion(8));
    EXPECT_EQ(drain(queue), (std::vector<std::uint64_t>{0, 2, 3, 5, 6, 8}));
  }
}

class Lock final : public Exclusion {
 public:
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// QPs of several lanes report to one queue, while another QP is purged now and then.
TEST(CompletionQueue, SeveralProducersLoseNothingAndKeepTheirOrder) {
  constexpr std::uint64_t kEach = 20'000;
  constexpr std::uint32_t kProducers = 4;
  CompletionQueue queue(64, nullptr);
  Lock lock;
  queue.expect_producers(lock);
  std::atomic<std::uint64_t> room{64};
  std::vector<std::thread> producers;
  for (std::uint32_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        std::uint64_t left = room;
        while (left == 0 || !room.compare_exchange_weak(left, left - 1)) {
          if (left == 0) std::this_thread::yield();
          left = room;
        }
        Completion one = completion(i);
        one.qpn = wire::Qpn(p);
        queue.push(one);
      }
    });
  }
  std::uint64_t next[kProducers] = {};
  std::uint64_t wrong = 0, taken = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (taken < kEach * kProducers && std::chrono::steady_clock::now() < end) {
    const Completion* one = queue.peek();
    if (one == nullptr) {
      queue.purge(wire::Qpn(kProducers));  // an unused QPN: must not disturb the others
      std::this_thread::yield();
      continue;
    }
    wrong += one->wr_id != next[one->qpn.value]++;
    queue.pop();
    ++taken;
    ++room;
  }
  EXPECT_EQ(taken, kEach * kProducers) << "completions were lost";
  room = kEach * kProducers;  // releases the producers after a failure
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(CompletionQueueDeathTest, SizesOutOfRangeStopTheProgram) {
  EXPECT_DEATH(CompletionQueue(0, nullptr), "internal error");
  EXPECT_DEATH(CompletionQueue(CompletionQueue::kEntriesMax + 1, nullptr), "internal error");
}

// The program's loop: arm, poll once more, sleep until an event. A missed event would leave it asleep with
// completions queued. The producer stays close behind, so that arm() and push() race as often as possible.
TEST(CompletionQueue, NoEventIsMissedBetweenArmAndSleep) {
  constexpr std::uint64_t kCount = 100'000;
  Events events;
  CompletionQueue queue(64, &events);
  std::atomic<std::uint64_t> polled{0};
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      while (i - polled >= 1 + i % 3) std::this_thread::yield();
      queue.push(completion(i, i % 2 == 0));
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::uint64_t wrong = 0, next = 0;
  int events_taken = 0;
  bool overflowed = false;
  const auto poll = [&] {
    Completion out[4];
    const std::size_t n = queue.poll(out);
    for (std::size_t i = 0; i < n; ++i) wrong += out[i].wr_id != next + i;
    next += n;
    overflowed |= queue.overflowed();
    polled = next;
    return n != 0;
  };
  while (next < kCount && std::chrono::steady_clock::now() < end) {
    if (poll()) continue;
    queue.arm(false);
    if (poll()) continue;
    while (events.completions == events_taken && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    events_taken = events.completions;
  }
  EXPECT_EQ(next, kCount) << "asleep with " << queue.size() << " completions queued";
  polled = kCount;  // releases the producer after a failure
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(overflowed);
}

// A solicited arm is strengthened just as a solicited completion arrives. The completion came after the first
// arm, so an event is due, whichever arm the producer saw.
TEST(CompletionQueue, StrengtheningAnArmLosesNoEvent) {
  constexpr int kRounds = 50'000;
  Events events;
  CompletionQueue queue(4, &events);
  std::atomic<int> wanted{0};
  std::thread producer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      for (unsigned spins = 0; wanted < round; ++spins) {
        if (spins % 1024 == 1023) std::this_thread::yield();
      }
      queue.push(completion(1, true));
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int missed = 0;
  for (int round = 1; round <= kRounds; ++round) {
    queue.arm(true);
    const int before = events.completions;
    wanted = round;
    for (int i = 0; i < round % 64; ++i) __asm__ volatile("");
    queue.arm(false);
    while (queue.peek() == nullptr) std::this_thread::yield();
    queue.pop();
    // The completion is visible, so push() is past its store; its event follows at once unless it is lost.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (events.completions == before && std::chrono::steady_clock::now() < patience)
      std::this_thread::yield();
    if (events.completions == before) ++missed;
    if (missed != 0 || std::chrono::steady_clock::now() > end) {
      wanted = kRounds;
      break;
    }
  }
  std::thread consumer([&] {  // drains the rest, so that nothing overflows while the producer ends
    while (wanted != -1) drain(queue);
  });
  producer.join();
  wanted = -1;
  consumer.join();
  EXPECT_EQ(missed, 0);
}

// A held event is raised once, on release. Completions are visible before.
TEST(CompletionQueue, EventsCanBeHeld) {
  Events events;
  CompletionQueue queue(8, &events);
  HeldEvents held;
  queue.arm(false);
  held.hold();
  queue.push(completion(1), &held);
  queue.push(completion(2), &held);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(events.completions, 0);
  EXPECT_TRUE(held.any());
  held.release();
  EXPECT_EQ(events.completions, 1);
  EXPECT_FALSE(held.any());
  queue.arm(false);
  queue.push(completion(3), &held);
  EXPECT_EQ(events.completions, 2) << "nothing is held any more";
}

}  // namespace rrdma::objects::completion_queue_test
