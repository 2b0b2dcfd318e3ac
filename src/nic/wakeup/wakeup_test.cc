// The wake-up protocol in virtual time. The world below is everything that WakeUp sees: a clock that jumps, a
// lane with arriving frames and departing answers, doorbells, and a program as a script of events that run
// while the thread sleeps. So every bound is exact, and a thread that would sleep forever is noticed.
#include "nic/wakeup/wakeup.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace rrdma::nic::wakeup_test {

constexpr Instant kStart{1'000'000'000};
constexpr Duration kSlack = microseconds(1);  // kernels wake a little late
constexpr int kLinkDescriptor = 7;

class World : public Sleeper, public Doorbells, public Duty {
 public:
  explicit World(bool one_core = false, bool has_doorbells = true) : wakeup(lock, *this, one_core) {
    if (has_doorbells) wakeup.set_doorbells(this);
  }

  // ---- time ----
  void in(Duration span, std::function<void()> event) { script_.emplace(time + span, std::move(event)); }
  // Every `period`, as long as `goes_on`.
  void every(Duration period, const bool& goes_on, const std::function<void()>& event) {
    in(period, [=, this, &goes_on] {
      if (!goes_on) return;
      event();
      every(period, goes_on, event);
    });
  }
  void run(Duration span) {
    horizon_ = time + span;
    while (time < horizon_ && wakeup.turn(*this)) {
    }
  }

  // ---- the network ----
  void frame_arrives() {
    ++frames;
    if (first_waits == kNever) first_waits = time;
    if (!requested) return;
    ++bells;
    link_readable_ = true;
  }

  // ---- the program ----
  void post() {
    const std::lock_guard held(lock);
    if (wakeup.take_look(time)) look(WakeUp::Caller::kProgram);
    wakeup.note_post(time);
    answers_due = false;
    wakeup.note_deadline(deadline);
  }
  void poll() {
    const std::lock_guard held(lock);
    if (!wakeup.note_poll(frames == 0)) return;
    wakeup.note_look(time);
    look(WakeUp::Caller::kProgram);
    wakeup.note_deadline(deadline);
  }

  // ---- Duty ----
  Served serve(std::span<const int>) override {
    ++serves;
    served = asked;
    at_serve();
    const bool received = look(WakeUp::Caller::kThread) != 0;
    after_look();
    return {.received = received, .now = time, .deadline = deadline <= time ? kNever : deadline};
  }
  bool look() override { return look(WakeUp::Caller::kProgram) != 0; }
  void publish(Instant) override { ++ticks; }
  void handle_control() override {
    ++controls;
    control_readable = false;
  }

  // ---- Doorbells ----
  bool request() override {
    EXPECT_FALSE(announced) << "peers would not ring";
    requested = true;
    return frames == 0;
  }
  void suppress() override { requested = false; }
  void announce_polling() override { announced = true; }
  void end_polling() override { announced = false; }

  // ---- Sleeper ----
  Instant now() override { return time; }
  Woken sleep(Watch watch, Instant until) override {
    at_sleep();
    for (;;) {
      if (rung_) return {.by_event = true};
      if (control_readable) return {.by_event = true, .by_control = true};
      if (watch == Watch::kEverything && std::exchange(link_readable_, false))
        return {.by_event = true, .links = {&kLinkDescriptor, 1}};
      const Instant next = script_.empty() ? kNever : script_.begin()->first;
      // A tick is not cut short: events within it count.
      if (std::min(next, until) > horizon_ && until > horizon_ + milliseconds(1)) {
        time = std::max(time, horizon_);
        return {};
      }
      if (next > until) {
        time = std::max(time, until + kSlack);
        return {};
      }
      time = std::max(time, next);
      const auto event = std::move(script_.begin()->second);
      script_.erase(script_.begin());
      event();
    }
  }
  void ring() override {
    ++rings;
    rung_ = true;
  }
  bool take_ring() override {
    before_take();
    const bool taken = std::exchange(rung_, false);
    after_take();
    return taken;
  }

  void yield() override {
    time = time + std::exchange(away, kSlack);
    if (++yields == 1'000'000) {
      ADD_FAILURE() << "the thread attends for ever";
      wakeup.stop();
    }
    while (!script_.empty() && script_.begin()->first <= time) {
      const auto event = std::move(script_.begin()->second);
      script_.erase(script_.begin());
      event();
    }
  }

  // The longest time that a frame waited for a poll.
  Duration longest_wait{};
  Instant time = kStart;
  Duration away = kSlack;  // duration of the next yield
  int yields = 0;
  int frames = 0, bells = 0, rings = 0, serves = 0, ticks = 0, controls = 0, asked = 0, served = 0;
  bool requested = false, announced = false, control_readable = false;
  bool answers_due = false;
  std::vector<Instant> answered_at;  // by a poll, not behind a post
  Instant first_waits = kNever;
  Instant deadline = kNever;  // of the engine
  std::function<void()> at_serve = [] {}, after_look = [] {}, at_sleep = [] {}, before_take = [] {},
                        after_take = [] {};
  LaneLock lock;
  WakeUp wakeup;

 private:
  // As Progress does it.
  int look(WakeUp::Caller caller) {
    const int received = std::exchange(frames, 0);
    if (received != 0) {
      longest_wait = std::max(longest_wait, time - first_waits);
      first_waits = kNever;
      answers_due = true;
    }
    if (!wakeup.note_arrivals(received != 0, time, caller) && std::exchange(answers_due, false))
      answered_at.push_back(time);
    return received;
  }

  std::multimap<Instant, std::function<void()>> script_;
  Instant horizon_ = kNever;
  bool rung_ = false, link_readable_ = false;
};

// A program that polls every microsecond, and a thread that stands by beside it.
class Polled : public testing::Test {
 protected:
  explicit Polled(bool one_core = false) : world_(one_core) {
    world_.every(microseconds(1), polls_, [this] { world_.poll(); });
    world_.run(milliseconds(5));
  }
  bool polls_ = true;
  World world_;
};

// ---- asleep, and woken by doorbells ----

TEST(WakeUp, APassiveTargetIsServedWhenTheDoorbellRings) {
  World world;
  for (int i = 1; i <= 5; ++i) world.in(milliseconds(i), [&] { world.frame_arrives(); });
  world.run(milliseconds(10));
  EXPECT_EQ(world.bells, 5);
  EXPECT_EQ(world.frames, 0);
  EXPECT_EQ(world.longest_wait.ns, 0);
}

// Between the last poll and the request no peer rings.
TEST(WakeUp, WhatCameBeforeTheDoorbellsWereRequestedIsServedAtOnce) {
  World world;
  int left = 3;
  world.after_look = [&] {
    if (left-- > 0) world.frame_arrives();
  };
  world.at_sleep = [&] { EXPECT_EQ(world.frames, 0); };
  world.run(milliseconds(2));
  EXPECT_EQ(world.serves, 4);
  EXPECT_EQ(world.bells, 0);
}

TEST(WakeUp, ALinkWithoutDoorbellsIsHeardByItsDescriptor) {
  World world(false, false);
  world.in(milliseconds(1), [&] { world.wakeup.rely_on_thread(); });
  world.run(milliseconds(3));
  EXPECT_EQ(world.rings, 1) << "what it left lying in the socket rings for nobody";
  EXPECT_FALSE(world.requested);
}

TEST(WakeUp, TheEnginesDeadlineIsKept) {
  World world;
  world.deadline = kStart + milliseconds(7);
  Instant woken;
  world.at_serve = [&] { woken = world.time; };
  world.run(milliseconds(8));
  EXPECT_EQ(woken, kStart + milliseconds(7) + kSlack);
}

TEST(WakeUp, AnEarlierDeadlineThatCameWithACallWakesTheThread) {
  World world;
  std::vector<Instant> woken;
  world.at_serve = [&] { woken.push_back(world.time); };
  world.in(milliseconds(1), [&] {
    world.deadline = kStart + milliseconds(3);
    world.post();
  });
  world.in(milliseconds(2), [&] { world.post(); });  // nothing new
  world.run(milliseconds(5));
  EXPECT_EQ(woken,
            (std::vector<Instant>{kStart, kStart + milliseconds(1), kStart + milliseconds(3) + kSlack}));
  EXPECT_EQ(world.rings, 1);
}

// ---- doorbell suppression ----

TEST(WakeUp, WhoCallsAFewTimesAndSleepsIsRungFor) {
  World world;
  for (int i = 1; i <= 32; ++i) world.in(microseconds(i), [&] { world.poll(); });
  world.in(microseconds(50), [&] { world.wakeup.rely_on_thread(); });
  world.in(microseconds(60), [&] {
    EXPECT_TRUE(world.requested);
    world.frame_arrives();
  });
  world.run(milliseconds(1));
  EXPECT_EQ(world.rings, 0) << "the thread slept through the calls";
  EXPECT_EQ(world.bells, 1);
  EXPECT_EQ(world.longest_wait.ns, 0);
}

TEST(WakeUp, WhoGoesOnCallingIsNotRungForAndTheThreadKnows) {
  World world;
  for (int i = 1; i <= 32; ++i) world.in(microseconds(i), [&] { world.poll(); });
  world.in(microseconds(33), [&] {
    world.poll();
    EXPECT_FALSE(world.requested);
    world.frame_arrives();  // no doorbell rings for it
  });
  world.run(milliseconds(1));
  EXPECT_EQ(world.rings, 1);
  EXPECT_EQ(world.bells, 0);
  EXPECT_EQ(world.longest_wait.ns, 0) << "the kick had the thread look";
}

// ---- standing by ----

TEST_F(Polled, TheThreadStandsByAndPeersAreTold) {
  ASSERT_TRUE(world_.wakeup.standing_by());
  EXPECT_TRUE(world_.announced);
  const int serves = world_.serves, rings = world_.rings;
  world_.every(microseconds(3), polls_, [this] { world_.frame_arrives(); });
  world_.deadline = world_.time + milliseconds(1);  // the program handles it, too
  world_.run(milliseconds(50));
  EXPECT_EQ(world_.serves, serves);
  EXPECT_EQ(world_.rings, rings);
  EXPECT_EQ(world_.bells, 0);
  EXPECT_GE(world_.ticks, 100) << "published twice in a millisecond";
  EXPECT_LE(world_.longest_wait.ns, microseconds(8).ns);
}

TEST_F(Polled, TheThreadIsBackSoonAfterTheProgramStopped) {
  ASSERT_TRUE(world_.wakeup.standing_by());
  polls_ = false;
  world_.in(microseconds(1), [this] { world_.frame_arrives(); });
  world_.run(milliseconds(5));
  EXPECT_FALSE(world_.wakeup.standing_by());
  EXPECT_FALSE(world_.announced);
  EXPECT_LE(world_.longest_wait.ns, microseconds(501).ns) << "a tick";
  EXPECT_EQ(world_.frames, 0);
}

TEST_F(Polled, ASleeperInACompletionChannelIsServedAtOnce) {
  ASSERT_TRUE(world_.wakeup.standing_by());
  world_.in(microseconds(10), [this] {
    polls_ = false;
    world_.wakeup.rely_on_thread();
    world_.in(microseconds(2), [this] { world_.frame_arrives(); });
  });
  world_.run(milliseconds(5));
  EXPECT_EQ(world_.bells, 1) << "the thread has requested doorbells by then";
  EXPECT_EQ(world_.longest_wait.ns, 0);
}

TEST_F(Polled, StandsByBesideCallsThatTakeLong) {
  polls_ = false;
  world_.run(milliseconds(1));
  ASSERT_FALSE(world_.wakeup.standing_by());
  bool slow = true;
  world_.every(microseconds(40), slow, [this] { world_.poll(); });
  world_.run(milliseconds(20));
  EXPECT_TRUE(world_.wakeup.standing_by());
}

TEST_F(Polled, ControlCallsTheThreadAwayAndItStandsByAgain) {
  ASSERT_TRUE(world_.wakeup.standing_by());
  const int controls = world_.controls;
  world_.in(microseconds(10), [this] { world_.control_readable = true; });
  world_.run(microseconds(20));
  EXPECT_EQ(world_.controls, controls + 1);
  EXPECT_FALSE(world_.wakeup.standing_by());
  world_.run(milliseconds(1));
  EXPECT_TRUE(world_.wakeup.standing_by()) << "without a pause: it was no failure";
}

// The call in progress will take what has arrived.
TEST_F(Polled, StaysAwayWhileTheProgramIsInACall) {
  ASSERT_TRUE(world_.wakeup.standing_by());
  polls_ = false;
  bool calls = true;
  world_.every(microseconds(10), calls, [this] { static_cast<void>(world_.wakeup.note_poll(true)); });
  world_.lock.lock();
  world_.frame_arrives();
  world_.run(milliseconds(20));
  EXPECT_EQ(world_.frames, 1);
  world_.lock.unlock();
  world_.run(milliseconds(1));
  EXPECT_EQ(world_.frames, 0);
  calls = false;
}

// Its queue is finite, so it will poll; meanwhile it takes arrivals now and then.
TEST(WakeUp, TheThreadStandsByBesideAProgramThatOnlyPosts) {
  World world;
  bool goes_on = true;
  world.every(microseconds(5), goes_on, [&] { world.post(); });
  world.every(microseconds(50), goes_on, [&] { world.frame_arrives(); });
  world.run(milliseconds(5));
  ASSERT_TRUE(world.wakeup.standing_by());
  const int serves = world.serves;
  world.run(milliseconds(50));
  EXPECT_EQ(world.serves, serves);
  EXPECT_LE(world.longest_wait.ns, microseconds(1'005).ns);
  goes_on = false;
}

// Like a program that spins on its memory: it calls, but not when something arrives.
TEST(WakeUp, TheThreadTriesLessAndLessBesideAProgramThatLeavesThingsLying) {
  World world;
  bool goes_on = true;
  world.every(microseconds(150), goes_on, [&] {
    for (int i = 0; i < 9; ++i) world.in(microseconds(5 * i), [&] { world.post(); });
    world.in(microseconds(99), [&] { world.frame_arrives(); });
  });
  int stays = 0;
  bool stood_by = false;
  world.at_serve = [&] {
    stays += stood_by;
    stood_by = false;
  };
  world.at_sleep = [&] { stood_by |= world.wakeup.standing_by(); };
  world.run(milliseconds(1000));
  EXPECT_GE(stays, 5);
  EXPECT_LE(stays, 10) << "1, 2, 4, ... 512 ms between two tries";
  EXPECT_LE(world.longest_wait.ns, microseconds(600).ns) << "the second tick finds what lies there";
  goes_on = false;
}

class PolledOnOneCore : public Polled {
 protected:
  PolledOnOneCore() : Polled(true) {}
};

TEST_F(PolledOnOneCore, TheThreadNeverStandsBy) {
  bool ever = false;
  world_.at_sleep = [&] { ever |= world_.wakeup.standing_by(); };
  world_.run(milliseconds(50));
  EXPECT_FALSE(ever);
  EXPECT_GE(world_.serves, 500) << "its wake-ups are what lets others run";
}

// ---- delayed ACKs ----

// The replying end of a ping-pong: a message arrives, the program's poll finds it, and it posts a reply.
class Replying : public testing::Test {
 protected:
  explicit Replying(bool one_core = false) : world_(one_core) { exchange(kHabit); }
  static constexpr int kHabit = 40;
  static constexpr Duration kExchange = microseconds(20);

  void exchange(int times, bool reply_to_last = true) {
    for (int i = 0; i < times; ++i) {
      world_.in(kExchange * i, [this] { world_.frame_arrives(); });
      world_.in(kExchange * i + microseconds(2), [this] { world_.poll(); });
      if (i + 1 != times || reply_to_last)
        world_.in(kExchange * i + microseconds(4), [this] { world_.post(); });
    }
    world_.run(kExchange * times);
  }
  World world_;
};

TEST_F(Replying, TheAnswerLeavesWithTheReply) {
  const std::size_t before = world_.answered_at.size();
  EXPECT_GE(before, 8u) << "no habit without eight replies in a row";
  exchange(100);
  EXPECT_EQ(world_.answered_at.size(), before);
}

TEST_F(Replying, WithoutAReplyTheAnswerLeavesByAPoll) {
  const std::size_t before = world_.answered_at.size();
  const Instant begin = world_.time;
  exchange(1, false);
  world_.in(microseconds(3), [this] {
    for (int i = 0; i < 8; ++i) world_.poll();  // seven of them are spared
  });
  world_.run(microseconds(10));
  ASSERT_EQ(world_.answered_at.size(), before + 1);
  EXPECT_LE(world_.answered_at.back(), begin + microseconds(24));
}

TEST_F(Replying, WithoutAReplyTheAnswerLeavesByTheThread) {
  const std::size_t before = world_.answered_at.size();
  const Instant begin = world_.time;
  exchange(1, false);
  world_.run(milliseconds(2));  // the program does nothing more
  ASSERT_EQ(world_.answered_at.size(), before + 1);
  EXPECT_LE(world_.answered_at.back(), begin + microseconds(600)) << "half a millisecond where it stands by";
  world_.frame_arrives();
  world_.run(milliseconds(1));
  EXPECT_EQ(world_.answered_at.size(), before + 2) << "the habit is gone";
}

TEST_F(Replying, NothingIsHeldWhenItWasGivenUp) {
  const std::size_t before = world_.answered_at.size();
  world_.in(Duration{}, [this] {
    const std::lock_guard held(world_.lock);
    world_.wakeup.give_up_reply();
  });
  exchange(1, false);
  EXPECT_EQ(world_.answered_at.size(), before + 1);
}

// Between two distant exchanges the thread sleeps for long: no thread would be certain to send held answers.
TEST(WakeUp, NoAnswerIsHeldWhileTheThreadSleepsForLong) {
  World world(false, false);
  for (int i = 0; i < 20; ++i) {
    world.in(milliseconds(10 * i + 1), [&] {
      world.frame_arrives();
      world.poll();
      world.post();
    });
  }
  world.run(milliseconds(300));
  EXPECT_EQ(world.answered_at.size(), 20u);
}

// Once it has seen that the program replies, it wakes often enough for answers that a poll of the program
// holds.
TEST(WakeUp, TheThreadWatchesAProgramThatReplies) {
  World world(false, false);
  bool goes_on = true;
  world.every(microseconds(20), goes_on, [&] {
    world.frame_arrives();
    world.in(microseconds(2), [&] { world.poll(); });
    world.in(microseconds(4), [&] { world.post(); });
  });
  world.run(milliseconds(1));
  const std::size_t before = world.answered_at.size();
  EXPECT_GE(before, 45u) << "asleep: not held";
  world.wakeup.kick();
  world.run(milliseconds(1));
  EXPECT_LE(world.answered_at.size(), before + 1);
  goes_on = false;
  world.run(milliseconds(1));
  EXPECT_FALSE(world.answers_due);
}

class ReplyingOnOneCore : public Replying {
 protected:
  ReplyingOnOneCore() : Replying(true) {}
};

TEST_F(ReplyingOnOneCore, NothingIsHeld) {
  EXPECT_EQ(world_.answered_at.size(), static_cast<std::size_t>(kHabit));
}

// ---- kicks ----

// A request and a kick arrive while the thread serves an earlier kick, at every possible moment. Nothing else
// wakes it.
TEST(WakeUp, NoKickIsLost) {
  using Moment = std::function<void()> World::*;
  for (const Moment moment : {&World::before_take, &World::after_take, &World::at_serve, &World::at_sleep}) {
    World world;
    const auto ask = [&] {
      ++world.asked;
      world.wakeup.kick();
    };
    bool once = false;
    world.in(milliseconds(1), [&] {
      world.*moment = [&] {
        if (!std::exchange(once, true)) ask();
      };
      ask();
    });
    world.run(milliseconds(2));
    EXPECT_TRUE(once);
    EXPECT_EQ(world.asked, 2);
    EXPECT_EQ(world.served, 2);
    world.in(milliseconds(1), ask);
    world.run(milliseconds(2));
    EXPECT_EQ(world.served, 3) << "no trace of the two is left";
  }
}

TEST(WakeUp, ManyKicksAreOneRing) {
  World world;
  world.in(milliseconds(1), [&] {
    for (int i = 0; i < 100; ++i) world.wakeup.kick();
  });
  world.run(milliseconds(2));
  EXPECT_EQ(world.rings, 1);
}

TEST(WakeUp, StopsWhileAsleep) {
  World world;
  world.in(milliseconds(1), [&] { world.wakeup.stop(); });
  world.run(seconds(1));
  EXPECT_EQ(world.time, kStart + milliseconds(1));
}

TEST_F(Polled, StopsWhileStandingBy) {
  ASSERT_TRUE(world_.wakeup.standing_by());
  const Instant before = world_.time;
  world_.wakeup.stop();
  world_.run(seconds(1));
  EXPECT_EQ(world_.time, before);
  EXPECT_FALSE(world_.announced);
  polls_ = false;
}

// ---- attending ----

// A program that sleeps until an event, handles a message within two microseconds, and sleeps again.
class Answered : public testing::Test {
 protected:
  enum class Reply : std::uint8_t { kNone, kPost };
  void message_every(Duration period, Reply reply = Reply::kPost) {
    world_.every(period, goes_on_, [this, reply] {
      world_.frame_arrives();
      world_.in(microseconds(2), [this, reply] {
        if (reply == Reply::kPost) world_.post();
        world_.wakeup.rely_on_thread();
      });
    });
  }
  bool goes_on_ = true;
  World world_;
};

TEST_F(Answered, MessagesCloseBehindOneAnotherFindTheThreadAwake) {
  message_every(microseconds(10));
  world_.run(milliseconds(20));
  // Of 2,000; now and then the thread sleeps, for the benefit of other threads on this core.
  EXPECT_LT(world_.bells, 40);
  EXPECT_GT(world_.bells, 5);
  EXPECT_LE(world_.longest_wait, microseconds(2));
  EXPECT_LT(world_.rings, 40) << "nobody kicks one that looks";
}

TEST_F(Answered, WhenTheyEndTheThreadSleepsAndIsRungFor) {
  message_every(microseconds(10));
  world_.in(milliseconds(5), [&] { goes_on_ = false; });
  world_.run(milliseconds(6));
  const int yields = world_.yields, bells = world_.bells;
  world_.in(milliseconds(1), [&] { world_.frame_arrives(); });
  world_.run(milliseconds(2));
  EXPECT_EQ(world_.yields, yields);
  EXPECT_EQ(world_.bells, bells + 1);
  EXPECT_EQ(world_.frames, 0);
}

TEST_F(Answered, WhoIsNeverFoundAwakeInTimeIsHardlyAttendedTo) {
  message_every(microseconds(80));
  world_.run(seconds(2));
  EXPECT_LT(world_.yields, 1000) << "of 25,000 messages";
  EXPECT_LE(world_.longest_wait, microseconds(2));
}

TEST_F(Answered, SeldomMessagesAreNotAttendedTo) {
  message_every(microseconds(300));
  world_.run(milliseconds(100));
  EXPECT_EQ(world_.yields, 0);
}

TEST_F(Answered, BesideOneThatComputesTheThreadSleeps) {
  message_every(microseconds(10));
  bool crowded = true;
  world_.at_serve = [&] {
    if (crowded) world_.away = milliseconds(3);
  };
  world_.run(seconds(1));
  EXPECT_LT(world_.yields, 10);
  crowded = false;
  world_.run(seconds(2));
  EXPECT_GT(world_.yields, 1000) << "it was never tried again";
}

TEST_F(Answered, ADeadlineOfACallMeanwhileIsKept) {
  message_every(microseconds(10), Reply::kNone);
  world_.in(milliseconds(5), [&] {
    goes_on_ = false;
    world_.deadline = world_.time + microseconds(300);
    world_.post();
  });
  Instant kept = kNever;
  world_.at_serve = [&] {
    if (world_.deadline != kNever && world_.time >= world_.deadline) {
      kept = std::min(kept, world_.time);
      world_.deadline = kNever;
    }
  };
  world_.run(milliseconds(20));
  EXPECT_LE(kept, kStart + milliseconds(5) + microseconds(302));
}

TEST_F(Answered, AThreadThatAttendsCanBeStopped) {
  message_every(microseconds(10), Reply::kNone);
  world_.in(milliseconds(5), [&] {
    goes_on_ = false;
    world_.wakeup.stop();
  });
  world_.run(milliseconds(20));
  EXPECT_LT(world_.time, kStart + milliseconds(6));
}

TEST(WakeUp, OnOneCoreNobodyIsAttendedTo) {
  World world(true);
  const bool goes_on = true;
  world.every(microseconds(10), goes_on, [&] {
    world.frame_arrives();
    world.wakeup.rely_on_thread();
  });
  world.run(milliseconds(5));
  EXPECT_EQ(world.yields, 0);
}

}  // namespace rrdma::nic::wakeup_test
