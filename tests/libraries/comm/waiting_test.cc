// The ways to wait: messages arrive with each of them, and a sleeping thread uses no CPU time.
#include <time.h>

#include <functional>
#include <thread>

#include "tests/libraries/comm/world.h"

namespace comm_test::waiting_test {

class Waiting : public World, public ::testing::WithParamInterface<Wait::Way> {
 protected:
  Waiting() {
    ContextOptions wanted = options();
    wanted.wait.way = GetParam();
    listener_ = {};
    context_ = Context::open(wanted).value_or_throw();
    listener_ = context_.listen(address_of(context_) + ":0").value_or_throw();
  }
};

// CPU time of this thread.
std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Task<> exchange(Pair& pair, unsigned times) {
  for (unsigned i = 0; i < times; ++i) {
    (co_await pair.client.send(i, kPatience)).value_or_throw();
    Message asked = (co_await pair.server.receive(kPatience)).value_or_throw();
    EXPECT_EQ(asked.as<unsigned>(), i);
    (co_await pair.server.send(i + 1, kPatience)).value_or_throw();
    Message answered = (co_await pair.client.receive(kPatience)).value_or_throw();
    EXPECT_EQ(answered.as<unsigned>(), i + 1);
  }
}

TEST_P(Waiting, MessagesArriveAtOnceAndAfterASleep) {
  Pair pair = connect();
  run(exchange(pair, 300));
  for (int i = 0; i < 20; ++i) {
    context_.run_until([] { return false; }, Clock::now() + 2ms);
    run(exchange(pair, 3));
  }
}

TEST_P(Waiting, ATimerIsOnTimeBesideSlowHandlers) {
  run([](Context& context) -> Task<> {
    bool over = false;
    Scope scope;
    scope.spawn([](Context& c, bool& stop) -> Task<> {
      for (int i = 0; i < 200 && !stop; ++i) {
        std::this_thread::sleep_for(10ms);
        (co_await c.yield()).value();
      }
    }(context, over));
    const auto due = Clock::now() + 50ms;
    (co_await context.sleep(50ms)).value();
    EXPECT_LT(Clock::now() - due, 300ms);
    over = true;
    co_await scope.join();
  }(context_));
}

TEST_P(Waiting, ATimerIsOnTimeBesideSlowFunctions) {
  bool over = false;
  int left = 200;
  std::function<void()> again = [&] {
    std::this_thread::sleep_for(10ms);
    if (!over && --left > 0) context_.post(again);
  };
  context_.post(again);
  const auto due = Clock::now() + 50ms;
  auto sleeping = context_.sleep(50ms);
  sleeping.start();
  EXPECT_TRUE(context_.run_until([&] { return sleeping.done(); }, Clock::now() + kPatience));
  EXPECT_LT(Clock::now() - due, 300ms);
  over = true;
  context_.run_until([] { return false; }, Clock::now() + 50ms);
}

// An event that was not taken would end every sleep at once: the first sleep requests one, and the exchange
// after it triggers it.
TEST_P(Waiting, WhoHasNothingToDoSleeps) {
  Pair pair = connect();
  run(exchange(pair, 300));
  context_.run_until([] { return false; }, Clock::now() + 2ms);
  run(exchange(pair, 3));
  const auto before = processor_time();
  context_.run_until([] { return false; }, Clock::now() + 500ms);
  EXPECT_LT(processor_time() - before, 100ms);
}

INSTANTIATE_TEST_SUITE_P(, Waiting, ::testing::Values(Wait::Way::kEvent, Wait::Way::kSpinThenEvent),
                         [](const auto& way) {
                           return way.param == Wait::Way::kEvent ? "ByEvents" : "SpinningFirst";
                         });

}  // namespace comm_test::waiting_test
