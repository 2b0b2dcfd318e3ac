// Lost connections that are restored, silent peers, containers in registered memory, foreign event loops.
#include <poll.h>

#include <memory_resource>
#include <numeric>

#include "tests/libraries/comm/world.h"

namespace comm_test::lost_test {

class Lost : public World {};

TEST_F(Lost, ReconnectingComesBack) {
  run([](Context& context, Listener& listener, std::string where) -> Task<> {
    Scope scope;
    scope.spawn([](Listener& l) -> Task<> {
      for (int i = 0; i < 3; ++i) {
        Endpoint end = (co_await l.accept(kPatience)).value_or_throw();
        static_cast<void>((co_await end.receive(kPatience)).value_or_throw());
        end.abort();
      }
    }(listener));
    Reconnecting client(context, where, {}, Backoff{.first = 1ms});
    for (std::uint64_t i = 1; i <= 3; ++i) {
      Endpoint* end = (co_await client.endpoint(kPatience)).value_or_throw();
      EXPECT_EQ(client.connections(), i);
      (co_await end->send("x", kPatience)).value_or_throw();
      EXPECT_EQ((co_await end->receive(kPatience)).error().code(), Code::kPeerGone);
    }
    co_await scope.join();
    Reconnecting nowhere(context, where.substr(0, where.rfind(':')) + ":1", {},
                         Backoff{.first = 1ms, .most = 4ms, .tries = 3});
    EXPECT_EQ((co_await nowhere.endpoint(kPatience)).error().code(), Code::kRefused);
    Reconnecting hasty(context, where.substr(0, where.rfind(':')) + ":1", {}, Backoff{.first = 50ms});
    EXPECT_FALSE((co_await hasty.endpoint(100ms)).ok());
  }(context_, listener_, address()));
}

TEST_F(Lost, KeepAliveAsksSilentPeers) {
  Profile lively;
  lively.keep_alive = 5ms;
  Pair pair = connect(lively);
  run([](Context& context, Pair& p) -> Task<> {
    const auto end = Clock::now() + kPatience;
    while (p.client.counters().keep_alives == 0 && Clock::now() < end) (co_await context.sleep(5ms)).value();
    EXPECT_GE(p.client.counters().keep_alives, 1U);
    EXPECT_EQ(p.server.counters().keep_alives, 0U);
    EXPECT_TRUE(p.client.open());
    EXPECT_EQ(p.server.counters().messages_received, 0U) << "nobody notices";
  }(context_, pair));
}

TEST_F(Lost, TheLongestDurationsAreNoLimit) {
  constexpr auto kLongest = std::chrono::milliseconds::max();
  EXPECT_FALSE(Limit(kLongest).timed());
  EXPECT_FALSE(Limit(std::chrono::hours::max()).timed());
  EXPECT_FALSE(Limit(Clock::duration::max()).timed());
  EXPECT_FALSE(Limit(std::chrono::duration<double>(1e30)).timed());
  EXPECT_TRUE(Limit(std::chrono::hours(24 * 365)).timed());
  const Limit past(std::chrono::milliseconds::min());
  EXPECT_LE(past.at(), Clock::now());
  Profile patient;
  patient.keep_alive = kLongest;
  Pair pair = connect(patient);
  context_.run_until([] { return false; }, Clock::now() + 20ms);
  EXPECT_TRUE(pair.client.open());
  EXPECT_EQ(pair.client.counters().keep_alives, 0U);
}

TEST_F(Lost, ContainersInRegisteredMemory) {
  PoolResource resource(context_.pool());
  const std::size_t before = context_.pool().in_use();
  {
    std::pmr::vector<std::uint64_t> numbers(1000, &resource);
    std::iota(numbers.begin(), numbers.end(), 0);
    EXPECT_GE(context_.pool().in_use(), before + 8000);
    ASSERT_NE(resource.buffer_of(numbers.data()), nullptr);
    Pair pair = connect();
    auto opened = share(context_, std::span(numbers), Access::kRead).value_or_throw();
    EXPECT_EQ(run(as_task(pair.client.read(opened.remote()[777], kPatience))).value_or_throw(), 777U);
  }
  settle();
  EXPECT_LE(context_.pool().in_use(), before);
}

// As another event loop does it: arm, sleep on the file descriptor, poll.
TEST_F(Lost, TheFileWakesAnotherLoop) {
  Pair pair = connect();
  auto exchange = [](Pair& p, int rounds) -> Task<int> {
    for (int i = 0; i < rounds; ++i) {
      (co_await p.client.send(i, kPatience)).value_or_throw();
      EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().as<int>(), i);
    }
    co_return rounds;
  }(pair, 200);
  exchange.start(std::noop_coroutine());
  int sleeps = 0;
  while (!exchange.done() && sleeps < 100000) {
    context_.poll();
    if (exchange.done() || !context_.arm()) continue;
    pollfd file{context_.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&file, 1, 10000), 1) << "it was not woken";
    ++sleeps;
  }
  EXPECT_TRUE(exchange.done());
  auto sleeping = context_.sleep(5ms);
  sleeping.start();
  while (!sleeping.done()) {
    context_.poll();
    if (sleeping.done() || !context_.arm()) continue;
    pollfd file{context_.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&file, 1, 10000), 1) << "a deadline does not wake";
  }
}

}  // namespace comm_test::lost_test
