// A server with several threads, and handlers that compute in other threads.
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/libraries/rpc/world.h"

namespace rpc_test {

// Methods that run in several threads.
class Hall {
 public:
  Result<std::uint64_t> where() {
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    return std::hash<std::thread::id>{}(std::this_thread::get_id());
  }
  Task<Result<std::uint32_t>> nap(Call& call, const std::uint32_t& ms) {
    static_cast<void>(co_await call.context().sleep(std::chrono::milliseconds(ms), call.stop()));
    co_return ms;
  }
  // Ends when the test has seen it.
  Task<Result<Empty>> doze(Call& call) {
    while (!awake)
      static_cast<void>(co_await call.context().sleep(std::chrono::milliseconds(1), call.stop()));
    co_return Empty{};
  }
  [[nodiscard]] std::size_t threads() {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }

  std::atomic<bool> awake{false};

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

class Mill {
 public:
  Task<Result<std::uint64_t>> grind(Call& call, const std::uint32_t& rounds) {
    auto ground = co_await pool.run(
        call.context(),
        [rounds] {
          std::this_thread::sleep_for(std::chrono::milliseconds(rounds));
          return std::hash<std::thread::id>{}(std::this_thread::get_id());
        },
        call.limit());
    co_return ground;
  }
  // Computes until it is stopped.
  Task<Result<std::uint64_t>> grind_on(Call& call) {
    auto ground = co_await pool.run(
        call.context(),
        [told = stop.get_future().share()] {
          told.wait_for(kPatience);
          return std::hash<std::thread::id>{}(std::this_thread::get_id());
        },
        call.limit());
    co_return ground;
  }
  Task<Result<Empty>> jam(Call& call) {
    auto ground = co_await pool.run(call.context(), [] { throw std::runtime_error("a stone"); });
    co_return ground;
  }
  ComputePool pool{2};
  std::promise<void> stop;
};

namespace thread_test {

class Threads : public ::testing::Test {
 protected:
  static constexpr unsigned kThreads = 3;
  Threads()
      : context_(Context::open().value_or_throw()), server_(std::make_unique<Server>(context_, options())) {
    server_->add<&Hall::where>(hall_);
    const Status listening = server_->listen(address_of(context_) + ":0");
    if (!listening.ok()) throw std::runtime_error(listening.what());
    // Also methods that are added later.
    server_->add<&Hall::nap>(hall_);
    server_->add<&Hall::doze>(hall_);
  }
  static ServerOptions options() {
    ServerOptions options;
    options.threads = kThreads;
    return options;
  }
  std::vector<Channel> connect(std::size_t count) {
    std::vector<Channel> channels;
    for (std::size_t i = 0; i < count; ++i) {
      channels.push_back(
          context_.run(rrdma::rpc::connect(context_, std::string(server_->address()), {}, kPatience))
              .value_or_throw());
    }
    return channels;
  }

  Context context_;
  Hall hall_;
  std::unique_ptr<Server> server_;
};

TEST_F(Threads, ConnectionsAreSpread) {
  auto channels = connect(2 * kThreads);
  std::map<std::uint64_t, int> connections;
  for (Channel& channel : channels) {
    const auto first = context_.run(channel.call<&Hall::where>(kPatience)).value_or_throw();
    const auto again = context_.run(channel.call<&Hall::where>(kPatience)).value_or_throw();
    EXPECT_EQ(first, again) << "a connection stays where it is";
    ++connections[first];
  }
  EXPECT_EQ(hall_.threads(), kThreads);
  for (const auto& [thread, count] : connections) EXPECT_EQ(count, 2);
  EXPECT_EQ(server_->connections(), 2 * kThreads);
  // The server counts a call when its reply has arrived, which the caller notices first.
  EXPECT_TRUE(context_.run_until([this] { return server_->counters().good == 4 * kThreads; },
                                 Clock::now() + kPatience));
}

TEST_F(Threads, DrainLetsCallsOfAllThreadsEnd) {
  auto channels = connect(kThreads);
  const auto all = [&]() -> Task<int> {
    int good = 0;
    const auto doze = [](Channel& on, int& count) -> Task<> {
      auto dozed = co_await on.call<&Hall::doze>(kPatience);
      count += dozed.ok() ? 1 : 0;
    };
    const auto wake = [](Context& context, Hall& hall) -> Task<> {
      static_cast<void>(co_await context.sleep(100ms));
      hall.awake = true;
    };
    Scope scope;
    for (Channel& channel : channels) scope.spawn(doze(channel, good));
    // Wait until the server has all of them.
    while (server_->calls() < kThreads) static_cast<void>(co_await context_.sleep(1ms));
    scope.spawn(wake(context_, hall_));  // while the server drains
    Status drained = co_await server_->drain(kPatience);
    EXPECT_TRUE(drained.ok()) << drained.what();
    co_await scope.join();
    co_return good;
  };
  EXPECT_EQ(context_.run(all()), int{kThreads});
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(Threads, DrainHasALimit) {
  auto channels = connect(1);
  const auto all = [&]() -> Task<> {
    const auto nap = [](Channel& on) -> Task<> {
      auto napped = co_await on.call<&Hall::nap>(20000, kPatience);
      EXPECT_EQ(napped.status().code(), Code::kUnavailable) << napped.status().what();
    };
    Scope scope;
    scope.spawn(nap(channels[0]));
    while (server_->calls() < 1) static_cast<void>(co_await context_.sleep(1ms));
    Status drained = co_await server_->drain(50ms);
    EXPECT_EQ(drained.code(), Code::kDeadlineExceeded) << drained.what();
    co_await scope.join();
  };
  context_.run(all());
}

TEST_F(Threads, TheEndOfAServerEndsItsThreads) {
  auto channels = connect(kThreads);
  const auto all = [&]() -> Task<> {
    const auto nap = [](Channel& on) -> Task<> {
      auto napped = co_await on.call<&Hall::nap>(20000, kPatience);
      EXPECT_EQ(napped.status().code(), Code::kUnavailable) << napped.status().what();
    };
    Scope scope;
    for (Channel& channel : channels) scope.spawn(nap(channel));
    while (server_->calls() < kThreads) static_cast<void>(co_await context_.sleep(1ms));
    server_.reset();
    co_await scope.join();
  };
  context_.run(all());
}

TEST_F(Threads, ADeviceThatIsNotThereIsSaid) {
  ServerOptions wrong = options();
  wrong.thread_context.device = "no_such_device";
  Server server(context_, wrong);
  const Status listening = server.listen(address_of(context_) + ":0");
  EXPECT_FALSE(listening.ok());
}

class Compute : public World {
 protected:
  Compute() {
    server_.add<&Mill::grind>(mill_);
    server_.add<&Mill::grind_on>(mill_);
    server_.add<&Mill::jam>(mill_);
  }
  Mill mill_;
};

TEST_F(Compute, OthersAreAnsweredMeanwhile) {
  Channel channel = connect();
  const auto all = [&]() -> Task<> {
    bool ground = false;
    const auto grind = [](Channel& on, bool& done) -> Task<> {
      auto where = co_await on.call<&Mill::grind_on>(kPatience);
      EXPECT_TRUE(where.ok()) << where.status().what();
      EXPECT_NE(where.ok() ? *where : 0, std::hash<std::thread::id>{}(std::this_thread::get_id()));
      done = true;
    };
    Scope scope;
    scope.spawn(grind(channel, ground));
    for (int i = 0; i < 20; ++i) {
      auto sum = co_await channel.call<&Desk::add>({1, 2}, kPatience);
      EXPECT_TRUE(sum.ok());
    }
    EXPECT_FALSE(ground);
    mill_.stop.set_value();
    co_await scope.join();
    EXPECT_TRUE(ground);
  };
  run(all());
}

TEST_F(Compute, AnExceptionIsTheHandlers) {
  Channel channel = connect();
  auto jammed = run(channel.call<&Mill::jam>(kPatience));
  EXPECT_EQ(jammed.status().code(), Code::kUnknown);
  EXPECT_EQ(jammed.status().message(), "the handler threw an exception");
}

TEST_F(Compute, ALimitIsKept) {
  Channel channel = connect();
  const auto begin = Clock::now();
  auto late = run(channel.call<&Mill::grind>(2000, 30ms));
  EXPECT_EQ(late.status().code(), Code::kDeadlineExceeded);
  EXPECT_LT(Clock::now() - begin, 1900ms);
  settle();
}

}  // namespace thread_test
}  // namespace rpc_test
