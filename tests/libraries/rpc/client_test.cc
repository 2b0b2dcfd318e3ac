// Client: reconnects, waits, repeats calls that are safe to repeat, and picks among servers.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "rrdma/rpc/client.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test {

// One idempotent method and one that is not; each counts its calls.
struct Till {
  static constexpr std::array<std::string_view, 1> kIdempotent = {"balance"};
  Task<Result<std::uint32_t>> balance(Call& call) {
    ++balances;
    static_cast<void>(co_await call.context().sleep(std::chrono::milliseconds(pause), call.stop()));
    co_return name;
  }
  Task<Result<std::uint32_t>> pay(Call& call) {
    ++payments;
    static_cast<void>(co_await call.context().sleep(std::chrono::milliseconds(pause), call.stop()));
    co_return name;
  }
  std::uint32_t name = 0;
  std::uint32_t pause = 0;
  unsigned balances = 0;
  unsigned payments = 0;
};

namespace client_test {

class Clients : public ::testing::Test {
 protected:
  Clients() : context_(Context::open(ContextOptions{}).value_or_throw()) {}
  std::unique_ptr<Server> open(Till& till, const std::string& where) {
    auto server = std::make_unique<Server>(context_);
    server->add<&Till::balance>(till);
    server->add<&Till::pay>(till);
    const Status listening = server->listen(where);
    EXPECT_TRUE(listening.ok()) << listening.what();
    return server;
  }
  std::string any() const { return address_of(context_) + ":0"; }
  // Two servers that report which of them was paid.
  struct Pair {
    explicit Pair(Clients& test) {
      one.name = 1;
      two.name = 2;
      first = test.open(one, test.any());
      second = test.open(two, test.any());
    }
    std::vector<std::string> addresses() const {
      return {std::string(first->address()), std::string(second->address())};
    }
    Till one;
    Till two;
    std::unique_ptr<Server> first;
    std::unique_ptr<Server> second;
  };
  template <typename T>
  T run(Task<T> task) {
    return context_.run(std::move(task));
  }
  // A server that refuses all connections: it has no room for clients that would show the secret.
  std::unique_ptr<Server> open_refusing() {
    ServerOptions options;
    options.secret = "secret";
    options.max_unproven = 0;
    auto server = std::make_unique<Server>(context_, options);
    EXPECT_TRUE(server->listen(any()).ok());
    return server;
  }
  static ClientOptions knowing() {
    ClientOptions options;
    options.channel.secret = "secret";
    return options;
  }
  Task<std::vector<Result<std::uint32_t>>> pay_at_once(Client& client, int count, Limit limit) {
    std::vector<Task<Result<std::uint32_t>>> calls;
    for (int i = 0; i < count; ++i) calls.push_back(client.call<&Till::pay>({}, limit));
    return when_all(std::move(calls));
  }
  Context context_;
};

TEST_F(Clients, HealAfterAServerCameBack) {
  Till till;
  auto server = open(till, any());
  const std::string where(server->address());
  ClientOptions options;
  options.wait_for_ready = true;
  Client client(context_, {where}, options);
  EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
  server->abort();
  server.reset();
  context_.run_until([] { return false; }, Clock::now() + 100ms);
  const auto reopen = [](Context& context, std::unique_ptr<Server>& into,
                         std::function<std::unique_ptr<Server>()> make) -> Task<> {
    static_cast<void>(co_await context.sleep(200ms));
    into = make();
  };
  auto [paid, none] = run(when_all(client.call<&Till::pay>({}, kPatience),
                                   reopen(context_, server, [&] { return open(till, where); })));
  EXPECT_TRUE(paid.ok()) << paid.status().what();
  EXPECT_EQ(till.payments, 2U);
  EXPECT_EQ(client.counters().connections, 2U);
}

TEST_F(Clients, DoNotWaitUnlessTheyAreTold) {
  Client client(context_, {address_of(context_) + ":1"});
  const auto begin = Clock::now();
  EXPECT_EQ(run(client.call<&Till::pay>({}, kPatience)).status().code(), Code::kUnavailable);
  EXPECT_LT(Clock::now() - begin, kPatience - 5s);
}

// The connection breaks while the handler runs: only an idempotent call is repeated.
TEST_F(Clients, RepeatOnlyWhatMayBeRepeated) {
  for (const bool idempotent : {true, false}) {
    Till till;
    till.pause = 200;
    auto first = open(till, any());
    auto second = open(till, any());
    Client client(context_, {std::string(first->address()), std::string(second->address())});
    const auto breaker = [](Context& context, const Till& running, Server& server) -> Task<> {
      while (running.balances + running.payments == 0) static_cast<void>(co_await context.sleep(1ms));
      server.abort();
    };
    if (idempotent) {
      auto [balance, none] =
          run(when_all(client.call<&Till::balance>({}, kPatience), breaker(context_, till, *first)));
      EXPECT_TRUE(balance.ok()) << balance.status().what();
      EXPECT_EQ(till.balances, 2U);
      EXPECT_EQ(client.counters().repeated, 1U);
    } else {
      auto [paid, none] =
          run(when_all(client.call<&Till::pay>({}, kPatience), breaker(context_, till, *first)));
      EXPECT_EQ(paid.status().code(), Code::kUnavailable);
      EXPECT_EQ(till.payments, 1U) << "it may have been paid: it is not paid twice";
    }
  }
}

// A call that a draining server refused never started, so another server executes it.
TEST_F(Clients, GoOnWithAnotherServerWhenOneDrains) {
  Pair servers(*this);
  Client client(context_, servers.addresses());
  EXPECT_EQ(run(client.call<&Till::pay>({}, kPatience)).value(), 1U);
  EXPECT_TRUE(run(servers.first->drain(kPatience)).ok());
  EXPECT_EQ(run(client.call<&Till::pay>({}, kPatience)).value(), 2U);
}

// A call while the server closes: if it is not answered, it never started.
TEST_F(Clients, GoOnWithAnotherServerWhileOneDrains) {
  for (int round = 0; round < 10; ++round) {
    Pair servers(*this);
    Client client(context_, servers.addresses());
    ASSERT_EQ(run(client.call<&Till::pay>({}, kPatience)).value(), 1U);
    Scope scope;
    const auto drain = [](Server& server) -> Task<> { EXPECT_TRUE((co_await server.drain(kPatience)).ok()); };
    scope.spawn(drain(*servers.first));
    const auto paid = run(client.call<&Till::pay>({}, kPatience));
    ASSERT_TRUE(paid.ok()) << paid.status().what();
    EXPECT_EQ(paid.value(), 2U);
    run(scope.join());
  }
}

// A dead address costs something once, not in every call.
TEST_F(Clients, StayWithTheServerThatAnswers) {
  auto dead = open_refusing();
  Till till;
  auto server = open(till, any());
  Client client(context_, {std::string(dead->address()), std::string(server->address())});
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
  EXPECT_LT(dead->counters().refused, 5U)
      << "more than one only if a repeated request was counted, or time passed";
  EXPECT_EQ(server->counters().connections, 1U);
}

// Connection requests to a listener that nobody serves get no answer.
TEST_F(Clients, DoNotWaitForASilentAddress) {
  auto silent = context_.listen(any()).value_or_throw();
  Till till;
  auto server = open(till, any());
  for (const Pick pick : {Pick::kFirst, Pick::kRoundRobin}) {
    ClientOptions options;
    options.pick = pick;
    options.connect = 20s;
    Client client(context_, {std::string(silent.address()), std::string(server->address())}, options);
    const auto begin = Clock::now();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
    EXPECT_LT(Clock::now() - begin, 10s);
  }
}

TEST_F(Clients, ShareOneConnectionFromTheFirstCallsOn) {
  Till till;
  auto server = open(till, any());
  Client client(context_, {std::string(server->address())});
  for (const auto& paid : run(pay_at_once(client, 100, kPatience))) EXPECT_TRUE(paid.ok());
  EXPECT_EQ(server->counters().connections, 1U);
  EXPECT_EQ(client.counters().connections, 1U);
}

// All calls together try an address as often as one call would: with pauses of 10, 20, 40 ... ms.
TEST_F(Clients, BackOffForEachAddress) {
  auto dead = open_refusing();
  ClientOptions options = knowing();
  options.wait_for_ready = true;
  Client client(context_, {std::string(dead->address())}, options);
  for (const auto& paid : run(pay_at_once(client, 20, Limit(500ms)))) {
    EXPECT_TRUE(paid.status().code() == Code::kUnavailable || paid.status().code() == Code::kDeadlineExceeded)
        << paid.status().what();
  }
  EXPECT_GE(dead->counters().refused, 2U);
  EXPECT_LE(dead->counters().refused, 12U);
}

// A server that returns is found in the background, without a call that waits for it.
TEST_F(Clients, FindAServerThatReturns) {
  Pair servers(*this);
  const std::string where(servers.second->address());
  ClientOptions options;
  options.pick = Pick::kRoundRobin;
  Client client(context_, servers.addresses(), options);
  EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
  servers.second->abort();
  servers.second.reset();
  for (int i = 0; i < 20; ++i) static_cast<void>(run(client.call<&Till::pay>({}, kPatience)));
  const unsigned before = servers.two.payments;
  servers.second = open(servers.two, where);
  EXPECT_TRUE(context_.run_until([&] { return servers.second->counters().connections == 1; },
                                 Clock::now() + kPatience));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
  EXPECT_GE(servers.two.payments, before + 2);
}

TEST_F(Clients, OpenStreams) {
  Desk desk;
  Server server(context_);
  add_all(server, desk);
  ASSERT_TRUE(server.listen(any()).ok());
  Client client(context_, {address_of(context_) + ":1", std::string(server.address())});
  run([](Client& on) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{3, 5}, kPatience)).value_or_throw();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE((co_await rows.read(kPatience)).has_value());
    auto sum = (co_await on.call<&Desk::sum>(CallOptions(kPatience))).value_or_throw();
    EXPECT_TRUE((co_await sum.write(4, kPatience)).ok());
    EXPECT_EQ((co_await sum.finish(kPatience)).value(), 4U);
  }(client));
}

TEST_F(Clients, TakeServersInTurn) {
  Pair servers(*this);
  ClientOptions options;
  options.pick = Pick::kRoundRobin;
  Client client(context_, servers.addresses(), options);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
  EXPECT_EQ(servers.one.payments, 5U);
  EXPECT_EQ(servers.two.payments, 5U);
}

// A call that stays in flight keeps further calls away from its server.
TEST_F(Clients, PreferTheServerWithTheFewestCalls) {
  Desk one;
  Desk two;
  Server first(context_);
  Server second(context_);
  add_all(first, one);
  add_all(second, two);
  ASSERT_TRUE(first.listen(any()).ok() && second.listen(any()).ok());
  ClientOptions options;
  options.pick = Pick::kLeastLoaded;
  Client client(context_, {std::string(first.address()), std::string(second.address())}, options);
  EXPECT_TRUE(run(client.call<&Desk::echo>("x", kPatience)).ok());
  const auto until = Clock::now() + kPatience;
  ASSERT_TRUE(context_.run_until([&] { return client.counters().connections == 2; }, until));
  auto held = run(client.call<&Desk::sum>(CallOptions(kPatience)));
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(context_.run_until([&] { return first.calls() + second.calls() == 1; }, until));
  const Desk& idle = first.calls() == 1 ? two : one;
  const auto before = idle.calls;
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(run(client.call<&Desk::echo>("x", kPatience)).ok());
  EXPECT_EQ(idle.calls, before + 6);
}

// ---- hashed, bounded and hedged calls ----

struct Three {
  explicit Three(Clients& test, std::function<std::unique_ptr<Server>(Till&)> open) {
    static_cast<void>(test);
    for (unsigned i = 0; i < 3; ++i) {
      tills[i].name = i;
      servers[i] = open(tills[i]);
      addresses.emplace_back(servers[i]->address());
    }
  }
  std::array<Till, 3> tills;
  std::array<std::unique_ptr<Server>, 3> servers;
  std::vector<std::string> addresses;
};

TEST_F(Clients, KeysNameServers) {
  constexpr unsigned kKeys = 60;
  Three three(*this, [this](Till& till) { return open(till, any()); });
  ClientOptions options;
  options.pick = Pick::kHash;
  Client client(context_, three.addresses, options);
  const auto serves = [&](unsigned key) {
    return run(client.call<&Till::balance>({}, CallOptions(kPatience).hashed_by("key" + std::to_string(key))))
        .value();
  };
  // A server that has not answered within a quarter of a second is left out for now.
  const auto connect_all = [&](Client& one) {
    static_cast<void>(run(one.call<&Till::balance>({}, kPatience)));
    EXPECT_TRUE(
        context_.run_until([&] { return one.counters().connections == 3; }, Clock::now() + kPatience));
  };
  connect_all(client);
  std::array<std::uint32_t, kKeys> first{};
  std::array<unsigned, 3> share{};
  for (unsigned key = 0; key < kKeys; ++key) ++share[first[key] = serves(key)];
  for (const unsigned keys : share) EXPECT_GE(keys, kKeys / 12);
  // Another client, with the addresses in another order, agrees.
  std::reverse(three.addresses.begin(), three.addresses.end());
  Client other(context_, three.addresses, options);
  connect_all(other);
  for (unsigned key = 0; key < kKeys; ++key) {
    CallOptions call = CallOptions(kPatience).hashed_by("key" + std::to_string(key));
    EXPECT_EQ(run(other.call<&Till::balance>({}, call)).value(), first[key]);
  }
  // Only the keys of a lost server move.
  three.servers[1].reset();
  for (unsigned key = 0; key < kKeys; ++key) {
    const std::uint32_t now = serves(key);
    EXPECT_NE(now, 1U);
    if (first[key] != 1) {
      EXPECT_EQ(now, first[key]);
    }
  }
}

// Idempotent, and unavailable as long as it is told.
struct Flaky {
  static constexpr std::array<std::string_view, 1> kIdempotent = {"ask"};
  Result<std::uint32_t> ask() {
    ++calls;
    if (failing) return {Code::kUnavailable, "not now"};
    return 1U;
  }
  unsigned calls = 0;
  bool failing = true;
};

TEST_F(Clients, ABudgetBoundsRepetition) {
  Flaky flaky;
  Server server(context_);
  server.add<&Flaky::ask>(flaky);
  ASSERT_TRUE(server.listen(any()).ok());
  ClientOptions options;
  options.first_pause = options.most_pause = 1ms;
  options.budget.tokens = 10;
  options.budget.per_success = 1;
  Client client(context_, {std::string(server.address())}, options);
  // The first call takes four tokens, the second one. From there on, half of the store is gone.
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(run(client.call<&Flaky::ask>({}, kPatience)).status().message(), "not now");
  EXPECT_EQ(flaky.calls, 4U + 9U);
  EXPECT_EQ(client.counters().repeated, 3U);
  EXPECT_EQ(client.counters().denied, 9U);
  // Calls that succeed fill it again.
  flaky.failing = false;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run(client.call<&Flaky::ask>({}, kPatience)).ok());
  flaky.failing = true;
  flaky.calls = 0;
  EXPECT_FALSE(run(client.call<&Flaky::ask>({}, kPatience)).ok());
  EXPECT_EQ(flaky.calls, 4U);
}

TEST_F(Clients, ASlowCallIsHedged) {
  Pair servers(*this);
  servers.one.pause = 20000;
  ClientOptions options;
  options.pick = Pick::kRoundRobin;
  options.hedging.after = 20ms;
  Client client(context_, servers.addresses(), options);
  const auto begun = Clock::now();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run(client.call<&Till::balance>({}, kPatience)).value(), 2U);
  EXPECT_LT(Clock::now() - begun, 15s);
  EXPECT_GE(client.counters().hedged, 1U);
  EXPECT_EQ(client.counters().hedged, servers.one.balances);
  // The attempts that lost are cancelled.
  EXPECT_TRUE(context_.run_until([&] { return servers.first->calls() == 0; }, Clock::now() + 15s));
}

TEST_F(Clients, OnlyIdempotentCallsAreHedged) {
  Pair servers(*this);
  servers.one.pause = servers.two.pause = 100;
  ClientOptions options;
  options.pick = Pick::kRoundRobin;
  options.hedging.after = 10ms;
  options.hedging.most = 3;
  Client client(context_, servers.addresses(), options);
  EXPECT_TRUE(run(client.call<&Till::pay>({}, kPatience)).ok());
  EXPECT_EQ(servers.one.payments + servers.two.payments, 1U);
  EXPECT_EQ(client.counters().hedged, 0U);
  EXPECT_TRUE(run(client.call<&Till::balance>({}, kPatience)).ok());
  EXPECT_EQ(client.counters().hedged, 3U);
  options.hedging.after = std::chrono::milliseconds::max();
  Client patient(context_, servers.addresses(), options);
  EXPECT_TRUE(run(patient.call<&Till::balance>({}, kPatience)).ok());
  EXPECT_EQ(patient.counters().hedged, 0U);
}

}  // namespace client_test
}  // namespace rpc_test
