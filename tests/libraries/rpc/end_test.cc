// The end of servers and connections: drain, abort, foreign peers.
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "lib/rpc/patience.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::end_test {

class Ends : public World {};

TEST_F(Ends, DrainLetsCallsEndAndTakesNoNewOnes) {
  Channel channel = connect();
  const auto drainer = [](Context& context, Server& server, Channel& on) -> Task<Status> {
    static_cast<void>(co_await context.sleep(30ms));
    auto draining = server.drain(kPatience);
    const auto late = [](Context& with, Channel& channel_of) -> Task<> {
      static_cast<void>(co_await with.sleep(20ms));
      EXPECT_FALSE(channel_of.open());
      const Status refused = (co_await channel_of.call<&Desk::add>({1, 2}, kPatience)).status();
      EXPECT_EQ(refused.code(), Code::kUnavailable);
      EXPECT_TRUE(refused.refused());
    };
    auto [status, none] = co_await when_all(std::move(draining), late(context, on));
    co_return status;
  };
  auto [slept, drained] =
      run(when_all(channel.call<&Desk::nap>(200, kPatience), drainer(context_, server_, channel)));
  EXPECT_TRUE(slept.ok()) << slept.status().what();
  EXPECT_TRUE(drained.ok()) << drained.what();
  EXPECT_EQ(server_.connections(), 0U);
  EXPECT_FALSE(run(rrdma::rpc::connect(context_, address_of(context_) + ":7001", {}, 2s)).ok());
}

// The server starts to drain at any point of connecting and calling. The caller learns that its call never
// started, or gets its result.
TEST_F(Ends, WhoComesWhileTheServerDrainsIsRefused) {
  const auto come = [](Context& context, std::string address, unsigned& called) -> Task<Status> {
    auto channel = co_await rrdma::rpc::connect(context, address, {}, kPatience);
    if (!channel.ok()) co_return channel.status();
    ++called;
    auto sum = co_await channel->call<&Desk::add>({1, 2}, kPatience);
    EXPECT_TRUE(sum.ok() || sum.status().refused()) << sum.status().what();
    co_return sum.status();
  };
  unsigned called = 0;
  const auto opened = [&] {
    auto server = std::make_unique<Server>(context_);
    add_all(*server, desk_);
    EXPECT_TRUE(server->listen(address_of(context_) + ":0").ok());
    return server;
  };
  // How long connecting and calling take here; losses and other programs may delay some.
  auto whole = Clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    auto server = opened();
    const auto begin = Clock::now();
    static_cast<void>(run(come(context_, std::string(server->address()), called)));
    whole = std::min(whole, Clock::now() - begin);
  }
  called = 0;
  constexpr unsigned kSteps = 200;
  for (unsigned step = 0; step < kSteps; ++step) {
    auto opened_server = opened();
    Server& server = *opened_server;
    auto coming = come(context_, std::string(server.address()), called);
    coming.start(std::noop_coroutine());
    context_.run_until([] { return false; }, Clock::now() + whole * (2 * step) / kSteps);
    const Status drained = run(server.drain(kPatience));
    EXPECT_TRUE(drained.ok()) << drained.what();
    EXPECT_TRUE(context_.run_until([&] { return coming.done(); }, Clock::now() + kPatience));
    if (!coming.done()) break;
    const Status status = coming.take();
    EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.what();
  }
  EXPECT_NE(called, 0U);
}

TEST_F(Ends, DrainGivesUpAtItsLimit) {
  Channel channel = connect();
  const auto drainer = [](Context& context, Server& server) -> Task<Status> {
    static_cast<void>(co_await context.sleep(30ms));
    Status drained = co_await server.drain(100ms);
    co_return drained;
  };
  auto [slept, drained] =
      run(when_all(channel.call<&Desk::nap>(5000, kPatience), drainer(context_, server_)));
  EXPECT_EQ(drained.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(slept.status().code(), Code::kUnavailable) << slept.status().what();
}

TEST_F(Ends, AbortEndsEverythingAtOnce) {
  Channel one = connect();
  Channel two = connect();
  const auto aborter = [](Context& context, Server& server) -> Task<> {
    static_cast<void>(co_await context.sleep(30ms));
    server.abort();
  };
  const auto reader = [](Channel& on) -> Task<> {
    auto talk = (co_await on.call<&Desk::talk>()).value_or_throw();
    auto none = co_await talk.read(kPatience);
    EXPECT_FALSE(none.has_value());
    EXPECT_EQ(talk.status().code(), Code::kUnavailable) << talk.status().what();
  };
  auto [a, b, c, d] =
      run(when_all(one.call<&Desk::nap>(5000, kPatience), two.call<&Desk::nap>(5000, kPatience), reader(two),
                   aborter(context_, server_)));
  EXPECT_EQ(a.status().code(), Code::kUnavailable) << a.status().what();
  EXPECT_EQ(b.status().code(), Code::kUnavailable);
  settle();
  EXPECT_EQ(desk_.cancelled, 2U);
}

// Destroying a server destroys its handlers, wherever they wait.
TEST_F(Ends, DestroyingTheServer) {
  Channel channel = connect();
  auto call = channel.call<&Desk::nap>(5000, kPatience);
  call.start(std::noop_coroutine());
  EXPECT_TRUE(context_.run_until([&] { return desk_.calls == 1; }, Clock::now() + kPatience));
  server_ = Server(context_);
  EXPECT_TRUE(context_.run_until([&] { return call.done(); }, Clock::now() + kPatience));
  EXPECT_EQ(call.take().status().code(), Code::kUnavailable);
}

// While a program is stopped, the answer that it waits for may arrive.
TEST_F(Ends, PatienceOutlastsAStop) {
  auto waiting = rrdma::rpc::detail::patience(context_, 5ms);
  waiting.start(std::noop_coroutine());
  std::this_thread::sleep_for(100ms);
  for (int i = 0; i < 100; ++i) context_.poll();
  EXPECT_FALSE(waiting.done());
  EXPECT_TRUE(context_.run_until([&] { return waiting.done(); }, Clock::now() + kPatience));
}

TEST_F(Ends, StrangersAreRefused) {
  run([](Context& context, std::string address) -> Task<> {
    auto plain = co_await context.connect(address, kPatience);
    EXPECT_EQ(plain.error().code(), rrdma::comm::Code::kRefused) << plain.error().what();
    EXPECT_NE(plain.error().what().find("rrdma::rpc"), std::string::npos) << plain.error().what();
  }(context_, address()));
  EXPECT_EQ(server_.counters().refused, 1U);
}

// A server of another protocol is rejected.
TEST_F(Ends, OtherServersAreNotTakenForOurs) {
  auto listener = context_.listen(address_of(context_) + ":0").value_or_throw();
  auto [connected, accepted] = run(
      when_all(rrdma::rpc::connect(context_, listener.address(), {}, kPatience), listener.accept(kPatience)));
  EXPECT_EQ(connected.status().code(), Code::kFailedPrecondition) << connected.status().what();
}

// A server without memory for another connection refuses it, and continues to serve the others.
TEST_F(Ends, AServerThatIsFull) {
  ServerOptions options;
  options.threads = 1;
  options.thread_context.pool.limit = 700 << 10;
  Server small(context_, options);
  small.add<&Desk::add>(desk_);
  ASSERT_TRUE(small.listen(address_of(context_) + ":0").ok());
  std::vector<Channel> channels;
  Status refused;
  while (refused.ok() && channels.size() < 10) {
    auto connected = run(rrdma::rpc::connect(context_, small.address(), {}, kPatience));
    refused = connected.status();
    if (connected.ok()) channels.push_back(std::move(*connected));
  }
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused.what();
  EXPECT_NE(refused.message().find("no memory or queues"), std::string::npos) << refused.what();
  ASSERT_GE(channels.size(), 1U);
  for (Channel& channel : channels) EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
  // A client that leaves makes room for another, as soon as the server has noticed.
  channels.clear();
  EXPECT_TRUE(context_.run_until([&] { return small.connections() == 0; }, Clock::now() + kPatience));
  const auto end = Clock::now() + kPatience;
  do {
    refused = run(rrdma::rpc::connect(context_, small.address(), {}, kPatience)).status();
  } while (!refused.ok() && Clock::now() < end);
  EXPECT_TRUE(refused.ok()) << refused.what();
}

TEST_F(Ends, NobodyListens) {
  auto nobody = run(rrdma::rpc::connect(context_, address_of(context_) + ":1", {}, kPatience));
  EXPECT_EQ(nobody.status().code(), Code::kUnavailable) << nobody.status().what();
}

}  // namespace rpc_test::end_test
