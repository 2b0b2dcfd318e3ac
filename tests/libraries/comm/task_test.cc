// Tasks, when_all, when_any, scopes and sleeping. Most of it needs no device, but a context.
#include <memory>
#include <thread>

#include "tests/libraries/comm/world.h"

namespace comm_test::task_test {

class Tasks : public World {};

Task<int> number(int value) { co_return value; }
Task<int> deep(int levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await deep(levels - 1);
}
Task<> thrower() {
  throw std::runtime_error("thrown");
  co_return;
}

TEST_F(Tasks, ValuesAndExceptions) {
  EXPECT_EQ(run(number(7)), 7);
  EXPECT_THROW(run(thrower()), std::runtime_error);
  auto [a, b, c] = run(when_all(number(1), deep(3), []() -> Task<> { co_return; }()));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 3);
  EXPECT_EQ(c, std::monostate{});
  EXPECT_THROW(run(when_all(number(1), thrower())), std::runtime_error);
}

// A long loop over tasks that end at once must not use more stack than a short one. GCC makes tail calls only
// with optimisation, which AddressSanitizer prevents.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
constexpr int kTransfers = 1000;
#else
constexpr int kTransfers = 1000000;
#endif
TEST_F(Tasks, SymmetricTransfer) {
  EXPECT_EQ(run([]() -> Task<int> {
              int sum = 0;
              for (int i = 0; i < kTransfers; ++i) sum += co_await number(1);
              co_return sum;
            }()),
            kTransfers);
}

TEST_F(Tasks, WhenAnyDestroysTheOthers) {
  auto witness = std::make_shared<int>(0);
  const auto sleeper = [](Context& context, std::shared_ptr<int> held) -> Task<int> {
    (co_await context.sleep(1h)).value();
    co_return *held;
  };
  auto answer = run(when_any(sleeper(context_, witness), number(3), sleeper(context_, witness)));
  EXPECT_EQ(answer.index(), 1U);
  EXPECT_EQ(std::get<1>(answer), 3);
  EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(Tasks, SleepingTakesItsTimeAndStops) {
  const auto begin = Clock::now();
  EXPECT_TRUE(run(as_task(context_.sleep(20ms))).ok());
  EXPECT_GE(Clock::now() - begin, 20ms);
  std::stop_source source;
  auto sleeping = context_.sleep(1h, source.get_token());
  sleeping.start();
  source.request_stop();
  EXPECT_TRUE(sleeping.done());
  EXPECT_EQ(sleeping.await_resume().error().code(), Code::kCancelled);
}

TEST_F(Tasks, AStopFromAnotherThread) {
  for (int round = 0; round < 20; ++round) {
    std::stop_source source;
    std::thread other([&] { source.request_stop(); });
    auto slept = run(as_task(context_.sleep(10s, source.get_token())));
    EXPECT_EQ(slept.error().code(), Code::kCancelled);
    other.join();
  }
}

// The operation ends while another thread requests a stop.
TEST_F(Tasks, AStopThatComesTooLate) {
  for (int round = 0; round < 200; ++round) {
    std::stop_source source;
    std::thread other([&] { source.request_stop(); });
    {
      auto sleeping = context_.sleep(10us * (round % 10), source.get_token());
      sleeping.start();
      for (int i = 0; i < round % 7; ++i) context_.poll();
    }
    other.join();
    context_.poll();
  }
  // A late stop left no timer and no waiter behind.
  EXPECT_TRUE(run(as_task(context_.sleep(1ms))).ok());
}

TEST_F(Tasks, ScopesOwnWhatTheyStarted) {
  auto witness = std::make_shared<int>(0);
  run([](Context& context, std::shared_ptr<int> held) -> Task<> {
    {
      Scope scope;
      for (int i = 0; i < 5; ++i) {
        scope.spawn([](Context& c, std::shared_ptr<int> h) -> Task<> {
          (co_await c.sleep(1ms)).value();
          ++*h;
        }(context, held));
      }
      co_await scope.join();
      EXPECT_EQ(*held, 5);
      scope.spawn([](Context& c, std::shared_ptr<int> h) -> Task<> {
        (co_await c.sleep(1h)).value();
        ++*h;
      }(context, held));
    }
    std::stop_source parent;
    Scope scope(parent.get_token());
    scope.spawn([](Context& c, std::stop_token stop, std::shared_ptr<int> h) -> Task<> {
      EXPECT_FALSE((co_await c.sleep(1h, stop)).ok());
      ++*h;
    }(context, scope.token(), held));
    parent.request_stop();
    co_await scope.join();
    EXPECT_EQ(*held, 6);
    scope.spawn(thrower());
    bool caught = false;
    try {
      co_await scope.join();
    } catch (const std::runtime_error&) {
      caught = true;
    }
    EXPECT_TRUE(caught);
  }(context_, witness));
  EXPECT_EQ(witness.use_count(), 1);
}

Task<> throws_later(Context& context) {
  (co_await context.sleep(1ms)).value();
  throw std::runtime_error("thrown later");
}
Task<> sleeps_long(Context& context, std::shared_ptr<int> held, std::stop_token stop = {}) {
  static_cast<void>(co_await context.sleep(1h, stop));
  ++*held;
}

// A failed task ends its siblings: the test would take an hour otherwise.
TEST_F(Tasks, AFailureCancelsTheSiblings) {
  auto witness = std::make_shared<int>(0);
  EXPECT_THROW(
      run(when_all(sleeps_long(context_, witness), throws_later(context_), sleeps_long(context_, witness))),
      std::runtime_error);
  std::vector<Task<>> tasks;
  tasks.push_back(sleeps_long(context_, witness));
  tasks.push_back(throws_later(context_));
  EXPECT_THROW(run(when_all(std::move(tasks))), std::runtime_error);
  EXPECT_THROW(run([](Context& context, std::shared_ptr<int> held) -> Task<> {
                 Scope scope;
                 scope.spawn(sleeps_long(context, held));
                 scope.spawn(throws_later(context));
                 co_await scope.join();
               }(context_, witness)),
               std::runtime_error);
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
}

Task<Result<int>> good_later(Context& context, int value) {
  (co_await context.yield()).value();
  co_return Result<int>(value);
}
Task<Result<int>> bad_later(Context& context) {
  (co_await context.yield()).value();
  co_return Result<int>(Error(Code::kTooLarge, During::kSend));
}
Task<Result<void>> ends_late(Context& context, std::shared_ptr<int> held) {
  auto slept = co_await context.sleep(1h);
  ++*held;
  co_return slept;
}

Task<Result<int>> later_result(Context& context, std::shared_ptr<int> held) {
  (co_await context.sleep(5ms)).value();
  co_return Result<int>(++*held);
}

// The same for a result that is an error.
TEST_F(Tasks, AnErrorCancelsTheSiblings) {
  auto witness = std::make_shared<int>(0);
  auto all = run(try_all(ends_late(context_, witness), bad_later(context_), good_later(context_, 1)));
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code(), Code::kTooLarge);
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
  EXPECT_THROW((void)run(try_all(ends_late(context_, witness),
                                 []() -> Task<Result<int>> {
                                   throw std::runtime_error("thrown");
                                   co_return Result<int>(0);
                                 }())),
               std::runtime_error);
  EXPECT_EQ(witness.use_count(), 1);
  std::vector<Task<Result<int>>> tasks;
  tasks.push_back(good_later(context_, 1));
  tasks.push_back(bad_later(context_));
  EXPECT_EQ(run(try_all(std::move(tasks))).error().code(), Code::kTooLarge);
}

Task<int> later(Context& context, std::shared_ptr<int> held) {
  (co_await context.sleep(5ms)).value();
  co_return ++*held;
}
Task<int> throws_instead(Context& context) {
  co_await throws_later(context);
  co_return 0;
}
template <typename T>
Task<bool> throws(Task<T>& task) {
  try {
    static_cast<void>(co_await task);
  } catch (const std::runtime_error&) {
    co_return true;
  }
  co_return false;
}
Task<> keeps_its_tasks(Context& context, std::shared_ptr<int> held) {
  auto any = when_any(later(context, held), number(1));
  auto winner = co_await any;
  EXPECT_EQ(winner.index(), 1U);
  EXPECT_EQ(held.use_count(), 2);
  auto all = when_all(later(context, held), throws_later(context));
  const bool one = co_await throws(all);
  EXPECT_TRUE(one);
  EXPECT_EQ(held.use_count(), 2);
  std::vector<Task<int>> tasks;
  tasks.push_back(later(context, held));
  tasks.push_back(throws_instead(context));
  auto several = when_all(std::move(tasks));
  const bool two = co_await throws(several);
  EXPECT_TRUE(two);
  EXPECT_EQ(held.use_count(), 2);
  auto tried = try_all(later_result(context, held), bad_later(context));
  auto result = co_await tried;
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(held.use_count(), 2);
  (co_await context.sleep(20ms)).value();
}

// The same if the awaiting coroutine keeps the task: the siblings are destroyed when it is over, not with it.
TEST_F(Tasks, SiblingsDoNotOutliveTheirTask) {
  auto witness = std::make_shared<int>(0);
  run(keeps_its_tasks(context_, witness));
  EXPECT_EQ(*witness, 0);
}

TEST_F(Tasks, TryAllGivesTheValues) {
  auto all = run(try_all(good_later(context_, 1), context_.sleep(1ms), good_later(context_, 2)));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, std::tuple(1, std::monostate{}, 2));
  std::vector<Task<Result<int>>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(good_later(context_, i));
  EXPECT_EQ(run(try_all(std::move(tasks))).value(), (std::vector<int>{0, 1, 2}));
}

TEST_F(Tasks, OrThrow) {
  EXPECT_EQ(run(or_throw(good_later(context_, 5))), 5);
  EXPECT_THROW(run(or_throw(bad_later(context_))), Failure);
  run(or_throw(context_.sleep(1ms)));
  Result<std::unique_ptr<int>> result(std::make_unique<int>(6));
  EXPECT_EQ(*result.value_or_throw(), 6);
  EXPECT_NE(result.value(), nullptr);
}

TEST_F(Tasks, AFailureStopsTheScope) {
  auto witness = std::make_shared<int>(0);
  EXPECT_THROW(run([](Context& context, std::shared_ptr<int> held) -> Task<> {
                 Scope scope;
                 scope.spawn(sleeps_long(context, held, scope.token()));
                 scope.spawn(throws_later(context));
                 // The stop request ends the first task. The next spawn reports the failure.
                 for (;;) {
                   (co_await context.yield()).value();
                   if (*held != 0) scope.spawn(sleeps_long(context, held));
                 }
               }(context_, witness)),
               std::runtime_error);
  EXPECT_EQ(*witness, 1);
}

// A task fails while the sibling that spawned it still runs, and a third coroutine waits in join().
TEST_F(Tasks, AFailureWithinASiblingsCall) {
  EXPECT_THROW(run([](Context& context) -> Task<> {
                 Scope scope;
                 scope.spawn([](Context& c, Scope& s) -> Task<> {
                   std::string text = "still alive";
                   (co_await c.yield()).value();
                   s.spawn(thrower());
                   EXPECT_EQ(text, "still alive");
                   (co_await c.sleep(1h)).value();
                 }(context, scope));
                 co_await scope.join();
               }(context_)),
               std::runtime_error);
}

class TasksDeathTest : public Tasks {
 protected:
  TasksDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(TasksDeathTest, AScopeLosesNoException) {
  EXPECT_DEATH(run([](Context& context) -> Task<> {
                 Scope scope;
                 scope.spawn(throws_later(context));
                 (co_await context.sleep(10ms)).value();
               }(context_)),
               "ended without join.*thrown later");
  // Another exception is on its way.
  EXPECT_THROW(run([](Context& context) -> Task<> {
                 Scope scope;
                 scope.spawn(throws_later(context));
                 (co_await context.sleep(10ms)).value();
                 throw std::logic_error("of the owner");
               }(context_)),
               std::logic_error);
}

TEST_F(TasksDeathTest, AwaitedTwice) {
  EXPECT_DEATH(run([]() -> Task<> {
                 auto task = number(3);
                 const int first = co_await task;
                 const int second = co_await task;
                 std::printf("%d %d\n", first, second);
               }()),
               "Task was awaited twice");
  EXPECT_DEATH(run([](Context& context) -> Task<> {
                 auto sleeping = context.sleep(1ms);
                 (co_await sleeping).value();
                 (co_await sleeping).value();
               }(context_)),
               "operation was awaited twice");
  EXPECT_DEATH(run(Task<>()), "empty Task");
  EXPECT_DEATH(run([](Context& context) -> Task<> {
                 auto task = throws_later(context);
                 task.start(std::noop_coroutine());
                 co_await task;
               }(context_)),
               "started or awaited twice");
}

TEST_F(TasksDeathTest, EmptyHandles) {
  EXPECT_DEATH(static_cast<void>(Endpoint().peer()), "empty Endpoint");
  EXPECT_DEATH(static_cast<void>(Endpoint().counters()), "empty Endpoint");
  EXPECT_DEATH(static_cast<void>(Listener().accept()), "empty Listener");
  EXPECT_DEATH(static_cast<void>(Incoming().peer()), "empty Incoming");
  EXPECT_DEATH(
      {
        Context taken = std::move(context_);
        context_.poll();
      },
      "Context that was moved from");
}

TEST_F(TasksDeathTest, TwoThreads) {
  EXPECT_DEATH(
      {
        std::thread polls([this] { context_.wait(Clock::now() + 10s); });
        std::this_thread::sleep_for(100ms);
        auto sleeping = context_.sleep(1s);
        sleeping.start();
        polls.join();
      },
      "two threads use one Context");
}

TEST_F(Tasks, YieldLetsOthersRun) {
  std::string order;
  const auto speaker = [](Context& context, std::string& text, char letter) -> Task<> {
    for (int i = 0; i < 3; ++i) {
      text += letter;
      (co_await context.yield()).value();
    }
  };
  run(when_all(speaker(context_, order, 'a'), speaker(context_, order, 'b')));
  EXPECT_EQ(order, "ababab");
}

// GCC 12.1 and 12.2 lay out the frames of these coroutines wrongly (awaiting.h). compilers/conditions.cc has
// all forms of conditions.
Task<> waits_in_a_condition(Context& context) {
  if (!co_await context.yield()) co_return;
  throw std::runtime_error("it ran");
}
struct alignas(16) Wide {
  int value;
};
Task<Wide> is_wide(Context& context) {
  if (!co_await context.yield()) co_return Wide{1};
  co_return Wide{2};
}
TEST_F(Tasks, ACoroutineThatWaitsInACondition) {
  EXPECT_THROW(run(waits_in_a_condition(context_)), std::runtime_error);
}
TEST_F(TasksDeathTest, AFrameThatCannotBeRepaired) {
#if !defined(__clang__) && __GNUC__ == 12 && __GNUC_MINOR__ < 3
  EXPECT_DEATH(static_cast<void>(is_wide(context_)), "bug 106188");
#else
  EXPECT_EQ(context_.run(is_wide(context_)).value, 2);
#endif
}

TEST_F(Tasks, ResultsSayWhatIsWrong) {
  Result<int> good = 3;
  EXPECT_EQ(*good, 3);
  Result<int> bad = Error(Code::kDeadline, During::kSend).with_peer("10.0.0.1:1");
  EXPECT_EQ(bad.error().what(), "send to 10.0.0.1:1: the time was over");
  EXPECT_THROW(std::move(bad).value_or_throw(), Failure);
}

}  // namespace comm_test::task_test
