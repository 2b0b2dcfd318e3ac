// Deadlines and cancellation: the caller resumes at once, the handler is notified, and nothing else is
// affected.
#include <stop_token>

#include "tests/rpc/world.h"

namespace rpc_test {
namespace {

class Limits : public World {};

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

}  // namespace
}  // namespace rpc_test
