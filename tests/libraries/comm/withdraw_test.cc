// Gives up operations wherever they can wait: by destruction, a stop or a deadline. Nothing leaks, memory in
// use by the device stays intact, and other endpoints are not affected.
#include <cstring>

#include "tests/libraries/comm/withdrawing.h"

namespace comm_test::withdraw_test {

TEST_F(Withdrawing, Connecting) {
  Pair other = connect();
  each_way([this](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await context_.connect(address(), limit)).ok();
  });
  // Successful connections wait at the listener.
  run([](Listener& listener) -> Task<> {
    for (;;) {
      auto end = co_await listener.accept(100ms);
      if (!end) co_return;
    }
  }(listener_));
  exchange_is_sound(other);
  other = Pair();
  settle();
}

TEST_F(Withdrawing, Accepting) {
  each_way([this](std::stop_token, Limit limit) -> Task<bool> {
    auto connecting = context_.connect(address(), kPatience);
    connecting.start();
    co_return (co_await listener_.accept(limit)).ok();
  });
  exchange_is_sound(*std::make_unique<Pair>(connect()));
}

TEST_F(Withdrawing, SendsThatWait) {
  Profile narrow;
  narrow.receive_depth = 4;
  Pair pair = connect(narrow, narrow);
  Pair other = connect();
  const std::size_t before = context_.pool().in_use();
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    Buffer buffer = take(3000);
    std::memset(buffer.data(), 'w', buffer.size());
    co_return (co_await pair.client.send(std::move(buffer), limit)).ok();
  });
  EXPECT_GT(pair.client.counters().waits_for_credit, 0U);
  exchange_is_sound(other);
  exchange_is_sound(pair);
  EXPECT_TRUE(
      context_.run_until([&] { return context_.pool().in_use() == before; }, Clock::now() + kPatience))
      << "a loan was lost";
}

// A send that was given up arrives completely or not at all. The others arrive in order.
TEST_F(Withdrawing, SendsUnderWay) {
  Pair pair = connect();
  std::uint32_t next = 0;
  const std::size_t before = context_.pool().in_use();
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    for (int i = 0; i < 20; ++i) {
      Buffer buffer = take(2048);
      std::fill_n(buffer.as<std::uint32_t>().begin(), 512, next++);
      if (!(co_await pair.client.send(std::move(buffer), limit)).ok()) co_return false;
      while (pair.server.counters().messages_received > 1000000) co_return true;
      auto received = co_await pair.server.receive(limit);
      if (!received) co_return false;
    }
    co_return true;
  });
  run([](Pair& p) -> Task<> {
    (co_await p.client.close(kPatience)).value_or_throw();
    std::uint32_t last = 0;
    for (;;) {
      auto message = co_await p.server.receive(kPatience);
      if (!message) co_return;
      const auto octets = message->bytes();
      const auto number = message->as<std::uint32_t>();
      EXPECT_GE(number, last);
      last = number;
      for (std::size_t i = 0; i < octets.size(); i += 4)
        EXPECT_EQ(std::memcmp(octets.data() + i, &number, 4), 0);
    }
  }(pair));
  pair = Pair();
  settle();
  EXPECT_LE(context_.pool().in_use(), before) << "a loan was lost";
}

TEST_F(Withdrawing, Receiving) {
  Pair pair = connect();
  unsigned sent = 0;
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    (co_await pair.client.send(sent++, kPatience)).value_or_throw();
    co_return (co_await pair.server.receive(limit)).ok();
  });
  // A message for a receiver that was destroyed is not lost: all messages arrive, in order.
  const auto seen = pair.server.counters().messages_received;
  EXPECT_LE(seen, sent);
  run([](Pair& p, unsigned total) -> Task<> {
    (co_await p.client.send(total, kPatience)).value_or_throw();
    unsigned last = 0;
    for (;;) {
      const auto number = (co_await p.server.receive(kPatience)).value_or_throw().as<unsigned>();
      EXPECT_GE(number, last);
      last = number;
      if (number == total) co_return;
    }
  }(pair, sent));
}

// If a receive is destroyed after it got a message, the next receive gets that message.
TEST_F(Withdrawing, AGivenMessageIsPassedOn) {
  Pair pair = connect();
  for (unsigned i = 0; i < 50; ++i) {
    auto sending = pair.client.send(i, kPatience);
    sending.start();
    {
      auto lost = pair.server.receive();
      lost.start();
      EXPECT_TRUE(context_.run_until([&] { return lost.done(); }, Clock::now() + kPatience));
    }
    EXPECT_EQ(run(as_task(pair.server.receive(kPatience))).value_or_throw().as<unsigned>(), i);
  }
}

TEST_F(Withdrawing, OneSidedOperations) {
  Pair pair = connect();
  Buffer target = take(100000);
  alignas(8) std::uint64_t counter[1] = {0};
  auto memory = share(context_, target, Access::kRead | Access::kWrite).value_or_throw();
  auto word =
      share(context_, std::span<std::uint64_t>(counter), Access::kAtomic | Access::kRead | Access::kWrite)
          .value_or_throw();
  const std::size_t before = context_.pool().in_use();
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await pair.client.write(take(100000), memory.remote(), limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await pair.client.read(memory.remote(), take(100000), limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await pair.client.fetch_add(word.remote()[0], 1, limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await pair.client.flush(limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    auto both = co_await when_all(pair.client.write(take(1000), memory.remote(), limit),
                                  pair.client.read(memory.remote(), take(100000), limit));
    co_return std::get<0>(both).ok();
  });
  exchange_is_sound(pair);
  EXPECT_TRUE(
      context_.run_until([&] { return context_.pool().in_use() == before; }, Clock::now() + kPatience))
      << "a loan was lost";
}

TEST_F(Withdrawing, WritesWithImmediateSwapsAndBatches) {
  Pair pair = connect();
  Buffer target = take(10000);
  alignas(8) std::uint64_t counter[1] = {0};
  auto memory = share(context_, target, Access::kRead | Access::kWrite).value_or_throw();
  auto word =
      share(context_, std::span<std::uint64_t>(counter), Access::kAtomic | Access::kRead | Access::kWrite)
          .value_or_throw();
  const std::size_t before = context_.pool().in_use();
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await pair.client.write(take(10000), memory.remote(), 7U, limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await pair.client.compare_swap(word.remote()[0], 0, 1, limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    auto [written, sent, swapped] = co_await batch(
        pair.client.write(take(5000), memory.remote(), limit), pair.client.send("batched", limit),
        pair.client.compare_swap(word.remote()[0], 1, 2, limit).fenced());
    co_return written.ok();
  });
  exchange_is_sound(pair);
  EXPECT_TRUE(
      context_.run_until([&] { return context_.pool().in_use() == before; }, Clock::now() + kPatience))
      << "a loan was lost";
}

TEST_F(Withdrawing, BuffersRequestsAndTime) {
  Pool pool = Pool::create(context_, {.limit = 8192}).value_or_throw();
  {
    Buffer all = pool.take(8192).value_or_throw();
    each_way([&](std::stop_token, Limit limit) -> Task<bool> {
      co_return (co_await pool.wait(8192, limit)).ok();
    });
  }
  EXPECT_EQ(pool.in_use(), 0U) << "who went away holds nothing";
  EXPECT_TRUE(pool.take(8192).ok());
  each_way([this](std::stop_token stop, Limit limit) -> Task<bool> {
    if (limit.timed()) co_return (co_await context_.sleep_until(limit.at(), stop)).ok();
    co_return (co_await context_.sleep(1h, stop)).ok();
  });
  each_way([this](std::stop_token, Limit limit) -> Task<bool> {
    auto connecting = context_.connect(address(), kPatience);
    connecting.start();
    co_return (co_await listener_.next(limit)).ok();
  });
  exchange_is_sound(*std::make_unique<Pair>(connect()));
}

TEST_F(Withdrawing, Datagrams) {
  Datagram one = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  Datagram two = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  const Peer peer = run(as_task(one.resolve(two.address(), kPatience))).value_or_throw();
  const std::size_t before = context_.pool().in_use();
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await one.send(peer, take(500), limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> { co_return (co_await two.receive(limit)).ok(); });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await one.resolve(two.address(), limit)).ok();
  });
  each_way([&](std::stop_token, Limit limit) -> Task<bool> {
    co_return (co_await one.join("239.7.7.9", limit)).ok();
  });
  EXPECT_TRUE(
      context_.run_until([&] { return context_.pool().in_use() == before; }, Clock::now() + kPatience))
      << "a loan was lost";
}

TEST_F(Withdrawing, Closing) {
  Pair other = connect();
  each_way([this](std::stop_token, Limit limit) -> Task<bool> {
    Pair pair = co_await connected();
    co_return (co_await pair.client.close(limit)).ok();
  });
  exchange_is_sound(other);
}

TEST_F(Withdrawing, EndpointsInTheMiddleOfEverything) {
  Pair other = connect();
  for (int polls = 0; polls < 20; ++polls) {
    Pair pair = connect();
    Scope scope;
    for (int i = 0; i < 5; ++i) {
      scope.spawn([](Endpoint& end, Buffer buffer) -> Task<> {
        static_cast<void>(co_await end.send(std::move(buffer)));
      }(pair.client, take(4000)));
      scope.spawn([](Endpoint& end) -> Task<> { static_cast<void>(co_await end.receive()); }(pair.server));
    }
    for (int i = 0; i < polls; ++i) context_.poll();
    if (polls % 2 == 0) pair.client.abort();
    pair = Pair();
  }
  exchange_is_sound(other);
  other = Pair();
  settle();
}

}  // namespace comm_test::withdraw_test
