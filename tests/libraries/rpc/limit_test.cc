// Deadlines and cancellation: the caller resumes at once, the handler is notified, and nothing else is
// affected.
#include <stop_token>
#include <vector>

#include "tests/libraries/rpc/world.h"

namespace rpc_test {

// Keeps its argument until it is cancelled.
struct Keeper {
  Task<Result<Empty>> keep(Call& call, Bulk<std::uint32_t>) {
    ++kept;
    static_cast<void>(co_await call.context().sleep(120s, call.stop()));
    co_return Empty{};
  }
  unsigned kept = 0;
};

namespace limit_test {

class Limits : public World {};

// A connection may hold four arguments of this size.
class Pressure : public World {
 protected:
  static constexpr std::size_t kLarge = 1 << 20;
  Pressure() : World(tight()) { server_.add<&Keeper::keep>(keeper_); }
  static ServerOptions tight() {
    ServerOptions options;
    options.connection_memory = 4 * kLarge + kLarge / 2;
    return options;
  }
  Task<Result<Empty>> keep(Channel& on, Limit limit) {
    auto bulk = Bulk<std::uint32_t>::of(context_, kLarge / 4).value_or_throw();
    return on.call<&Keeper::keep>(std::move(bulk), CallOptions(std::move(limit)));
  }
  Keeper keeper_;
};

TEST_F(Pressure, CallsWaitForMemory) {
  Channel channel = connect();
  const std::string text(kLarge, 'x');
  std::vector<Task<Result<std::string>>> calls;
  for (int i = 0; i < 40; ++i) calls.push_back(channel.call<&Desk::echo>(text, CallOptions(kPatience)));
  for (const auto& one : run(when_all(std::move(calls)))) {
    ASSERT_TRUE(one.ok()) << one.status().what();
    EXPECT_TRUE(*one == text);
  }
}

TEST_F(Pressure, CallsWaitAsLongAsTheirLimit) {
  Channel channel = connect();
  std::stop_source stop;
  Scope keepers;
  const auto hold = [](Task<Result<Empty>> call) -> Task<> { static_cast<void>(co_await call); };
  for (int i = 0; i < 4; ++i) keepers.spawn(hold(keep(channel, Limit(stop.get_token()))));
  EXPECT_TRUE(context_.run_until([&] { return keeper_.kept == 4; }, Clock::now() + kPatience));
  EXPECT_EQ(run(keep(channel, Limit(100ms))).status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U) << "small calls go on";
  {
    auto given_up = keep(channel, Limit(kPatience));
    given_up.start(std::noop_coroutine());
    context_.run_until([] { return false; }, Clock::now() + 20ms);
  }
  EXPECT_TRUE(context_.run_until([&] { return channel.calls() == 4; }, Clock::now() + kPatience));
  EXPECT_EQ(keeper_.kept, 4U);
  stop.request_stop();
  run(keepers.join());
  EXPECT_EQ(run(channel.call<&Desk::echo>(std::string(kLarge, 'y'), kPatience)).value().size(), kLarge);
  settle();
}

TEST_F(Pressure, AnArgumentThatNeverFitsIsRefused) {
  Channel channel = connect();
  const Status status = run(channel.call<&Desk::echo>(std::string(8 * kLarge, 'x'), kPatience)).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
}

TEST_F(Limits, ADeadlineTravels) {
  Channel channel = connect();
  EXPECT_EQ(run(channel.call<&Desk::left>()).value(), 0U);
  const auto left = std::chrono::nanoseconds(run(channel.call<&Desk::left>(60s)).value());
  EXPECT_LE(left, 60s);
  EXPECT_GT(left, 20s);
}

TEST_F(Limits, ADeadlineEndsTheCallAndTheHandler) {
  Channel channel = connect();
  const auto begin = Clock::now();
  const Status status = run(channel.call<&Desk::nap>(120'000, 50ms)).status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_LT(Clock::now() - begin, kPatience);
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
  EXPECT_TRUE(context_.run_until([&] { return channel.calls() == 0; }, Clock::now() + kPatience));
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

TEST_F(Limits, ADeadlineThatIsOverBeforeTheCall) {
  Channel channel = connect();
  EXPECT_EQ(run(channel.call<&Desk::nap>(1, Limit(Clock::now() - 1s))).status().code(),
            Code::kDeadlineExceeded);
  EXPECT_EQ(desk_.calls, 0U);
}

TEST_F(Limits, AStopTokenCancels) {
  Channel channel = connect();
  std::stop_source stop;
  const auto stopper = [](Context& context, std::stop_source& source) -> Task<> {
    static_cast<void>(co_await context.sleep(30ms));
    source.request_stop();
  };
  auto [result, none] =
      run(when_all(channel.call<&Desk::nap>(5000, Limit(stop.get_token())), stopper(context_, stop)));
  EXPECT_EQ(result.status().code(), Code::kCancelled);
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
  EXPECT_EQ(run(channel.call<&Desk::nap>(1, Limit(stop.get_token()))).status().code(), Code::kCancelled);
  EXPECT_EQ(desk_.calls, 1U);
}

// Destroying the task also cancels.
TEST_F(Limits, GoingAwayCancels) {
  Channel channel = connect();
  {
    auto call = channel.call<&Desk::nap>(5000);
    call.start(std::noop_coroutine());
    EXPECT_TRUE(context_.run_until([&] { return desk_.calls == 1; }, Clock::now() + kPatience));
  }
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
  EXPECT_TRUE(context_.run_until([&] { return channel.calls() == 0; }, Clock::now() + kPatience));
}

// The server reads the argument from the caller's memory, which stays open until the server has answered, in
// every case.
TEST_F(Limits, CancellingWhileTheArgumentIsRead) {
  Channel channel = connect();
  const std::string text(4 << 20, 'x');
  for (int i = 0; i < 20; ++i) {
    auto call = channel.call<&Desk::echo>(text, CallOptions().lending(text.size()));
    call.start(std::noop_coroutine());
    for (int turn = 0; turn < i; ++turn) context_.poll();
  }
  EXPECT_TRUE(context_.run_until([&] { return channel.calls() == 0; }, Clock::now() + kPatience));
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
  EXPECT_EQ(server_.counters().broken, 0U);
}

TEST_F(Limits, ClosingTheChannelEndsItsCalls) {
  Channel channel = connect();
  const auto closer = [](Context& context, Channel& which) -> Task<> {
    static_cast<void>(co_await context.sleep(20ms));
    which.close();
  };
  auto [result, none] = run(when_all(channel.call<&Desk::nap>(5000), closer(context_, channel)));
  EXPECT_EQ(result.status().code(), Code::kCancelled);
  EXPECT_FALSE(channel.open());
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
  EXPECT_FALSE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
}

// Handlers are notified if their caller's connection is gone.
TEST_F(Limits, AClientThatLeavesCancelsItsCalls) {
  {
    Channel channel = connect();
    auto call = channel.call<&Desk::nap>(5000);
    call.start(std::noop_coroutine());
    EXPECT_TRUE(context_.run_until([&] { return desk_.calls == 1; }, Clock::now() + kPatience));
  }
  settle();
  EXPECT_EQ(desk_.cancelled, 1U);
}

}  // namespace limit_test
}  // namespace rpc_test
