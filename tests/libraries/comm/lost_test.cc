// Lost connections that are restored, silent peers, containers in registered memory, foreign event loops.
#include <poll.h>

#include <array>
#include <atomic>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <thread>

#include "lib/comm/send_half.h"
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

// Longer than the wait for an answer, which is at least a second. The peer's device answers.
TEST_F(Lost, APeerThatDoesNotPollIsNotGone) {
  Profile lively;
  lively.keep_alive = 50ms;
  auto accepting = as_task(listener_.accept({}, kPatience));
  accepting.start(std::noop_coroutine());
  std::atomic<bool> connected = false;
  std::jthread client([&lively, &connected, where = address()] {
    Context context = Context::open(options()).value_or_throw();
    context.run([](Context& own, Profile profile, std::string to, std::atomic<bool>& done) -> Task<> {
      Endpoint end = (co_await own.connect(to, profile, kPatience)).value_or_throw();
      done = true;
      (co_await own.sleep(1800ms)).value_or_throw();
      EXPECT_TRUE(end.open());
      EXPECT_GE(end.counters().keep_alives, 5U);
      EXPECT_TRUE((co_await end.send("still here", kPatience)).ok());
    }(context, lively, where, connected));
  });
  EXPECT_TRUE(context_.run_until([&] { return accepting.done() && connected; }, Clock::now() + kPatience));
  Endpoint end = accepting.take().value_or_throw();
  std::this_thread::sleep_for(1800ms);
  auto received = run(as_task(end.receive(kPatience)));
  EXPECT_EQ(received.value_or_throw().text(), "still here");
}

// The answer to a probe waits behind many completions, which the program reads slowly. Each turn sets a
// timer, so that the next one reads the clock.
TEST_F(Lost, ABusyProgramFindsTheAnswer) {
  constexpr int kMessages = 960;
  // Both profiles are large: their queues and that of the idle connection then share completions.
  Profile sender, receiver, lively;
  sender.message_limit = receiver.message_limit = 64;
  sender.send_depth = receiver.receive_depth = 1000;
  sender.receive_depth = receiver.send_depth = 16;
  lively.keep_alive = 50ms;
  Pair busy = connect(sender, receiver);
  Pair idle = connect(lively);
  std::optional<Sleeping> nap;
  nap.emplace(context_.sleep(1ms)).start();
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(busy.client.try_send(i)) << i;
  std::this_thread::sleep_for(200ms);  // they arrive, and a probe is due
  const std::uint64_t probes = idle.client.counters().keep_alives;
  run([](Context& context, Endpoint& end, std::optional<Sleeping>& napping) -> Task<> {
    for (int received = 0; received < kMessages;) {
      Message message = (co_await end.receive(kPatience)).value_or_throw();
      napping.emplace(context.sleep(1ms)).start();
      for (; message; message = end.try_receive()) {
        std::this_thread::sleep_for(2500us);  // 128 of them take more than a quarter of a second
        ++received;
      }
    }
  }(context_, busy.server, nap));
  EXPECT_GT(idle.client.counters().keep_alives, probes);
  EXPECT_TRUE(idle.client.open());
  run(as_task(idle.client.send("still here", kPatience))).value_or_throw();
}

// A READ of four seconds on a link of 250 kB/s (comm.keep_alive.slow), in an instant elsewhere.
TEST_F(Lost, ASlowTransferEndsNoConnection) {
  Profile lively;
  lively.keep_alive = 50ms;
  Pair pair = connect(lively);
  std::vector<std::byte> memory(1'000'000, std::byte{7});
  auto opened = share(context_, std::span(memory), Access::kRead).value_or_throw();
  auto read = run(as_task(pair.client.read(opened.remote(), take(memory.size()), kPatience)));
  EXPECT_EQ(read.value_or_throw().bytes().back(), std::byte{7});
}

// The wait for a probe behind requests. Each completion is a sign of life, so only the largest one counts.
TEST_F(Lost, TheLargestRequestInFlight) {
  using rrdma::comm::detail::Posting;
  using rrdma::comm::detail::SendHalf;
  std::array<std::byte, SendHalf::kScratch*(4 + SendHalf::kExtraRoom)> scratch;
  SendHalf half;
  half.open(4, scratch.data(), nullptr, [](rrdma::comm::detail::Completion*, const ibv_wc&) {});
  EXPECT_EQ(half.largest(), 0U);
  std::array<Posting*, 3> postings{};
  for (Posting*& one : postings) one = half.take(Posting::Kind::kTransfer);
  postings[0]->buffer = take(40);
  postings[1]->buffer = take(60);
  EXPECT_EQ(half.largest(), 60U);
  postings[1]->buffer = Buffer();
  EXPECT_EQ(half.largest(), 40U);
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
  auto sleeping = context_.sleep(kLongest);
  sleeping.start();
  context_.run_until([] { return false; }, Clock::now() + 20ms);
  EXPECT_TRUE(pair.client.open());
  EXPECT_EQ(pair.client.counters().keep_alives, 0U);
  EXPECT_FALSE(sleeping.done());
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
