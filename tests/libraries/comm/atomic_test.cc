// One-sided operations: reads, writes, atomics, immediates, and memory that is not open.
#include <cstring>
#include <numeric>

#include "tests/libraries/comm/world.h"

namespace comm_test::atomic_test {

class OneSided : public World {};

struct Row {
  std::uint64_t key;
  double value;
};

TEST_F(OneSided, ReadsAndWrites) {
  Pair pair = connect();
  std::vector<Row> table(1000);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = {i, static_cast<double>(i) / 2};
  auto opened = share(context_, std::span(table), Access::kRead | Access::kWrite).value_or_throw();
  run([](Endpoint& end, RemoteSpan<Row> remote, Buffer buffer, std::vector<Row>& rows) -> Task<> {
    buffer = (co_await end.read(remote.subspan(10, 100), std::move(buffer), kPatience)).value_or_throw();
    auto read = buffer.as<Row>();
    EXPECT_EQ(read.size(), 100U);
    for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].key, i + 10);
    for (Row& row : read) row.value = -1;
    buffer = (co_await end.write(std::move(buffer), remote.subspan(10, 100), kPatience)).value_or_throw();
    EXPECT_EQ(rows[9].value, 4.5);
    EXPECT_EQ(rows[10].value, -1);
    EXPECT_EQ(rows[109].value, -1);
    EXPECT_EQ(rows[110].value, 55);
    const Row one = (co_await end.read(remote[500], kPatience)).value_or_throw();
    EXPECT_EQ(one.key, 500U);
  }(pair.client, opened.remote(), take(100 * sizeof(Row)), table));
}

// With one packet in a hundred lost, a lost retransmission makes the transport wait for its acknowledgement
// timer (over a second, as set by rdma_cm). Hence the long limit.
constexpr auto kLargePatience = 60s;

TEST_F(OneSided, LargeTransfers) {
  Pair pair = connect();
  const std::size_t size = 3_MiB + 17;
  Buffer target = take(size);
  auto opened = share(context_, target, Access::kRead | Access::kWrite).value_or_throw();
  run([](Endpoint& end, RemoteSpan<std::byte> remote, Buffer buffer, Buffer& far) -> Task<> {
    for (std::size_t i = 0; i < buffer.size(); ++i)
      buffer.data()[i] = static_cast<std::byte>(i * 7 + i / 999);
    buffer = (co_await end.write(std::move(buffer), remote, kLargePatience)).value_or_throw();
    EXPECT_EQ(std::memcmp(buffer.data(), far.data(), far.size()), 0);
    std::memset(buffer.data(), 0, buffer.size());
    buffer = (co_await end.read(remote, std::move(buffer), kLargePatience)).value_or_throw();
    EXPECT_EQ(std::memcmp(buffer.data(), far.data(), far.size()), 0);
  }(pair.client, opened.remote(), take(size), target));
}

TEST_F(OneSided, WriteWithImmediateIsAMessage) {
  Pair pair = connect();
  Buffer target = take(100);
  auto opened = share(context_, target, Access::kWrite).value_or_throw();
  run([](Pair& p, RemoteSpan<std::byte> remote, Buffer buffer, Buffer& far) -> Task<> {
    std::memset(buffer.data(), 0x5a, buffer.size());
    for (std::uint32_t i = 0; i < 200; ++i) {
      buffer =
          (co_await p.client.write(std::move(buffer), remote, 0xabcd0000 + i, kPatience)).value_or_throw();
      Message message = (co_await p.server.receive(kPatience)).value_or_throw();
      EXPECT_EQ(message.immediate(), 0xabcd0000 + i);
      EXPECT_EQ(message.size(), 0U);
      EXPECT_EQ(far.data()[99], std::byte{0x5a});
    }
  }(pair, opened.remote(), take(100), target));
}

TEST_F(OneSided, Atomics) {
  if (!context_.device().atomics) GTEST_SKIP() << "the device has none";
  Pair pair = connect();
  alignas(8) std::uint64_t counter[1] = {5};
  auto opened =
      share(context_, std::span<std::uint64_t>(counter), Access::kAtomic | Access::kRead | Access::kWrite)
          .value_or_throw();
  run([](Pair& p, RemoteRef<std::uint64_t> remote) -> Task<> {
    EXPECT_EQ((co_await p.client.fetch_add(remote, 10, kPatience)).value_or_throw(), 5U);
    EXPECT_EQ((co_await p.client.compare_swap(remote, 15, 100, kPatience)).value_or_throw(), 15U);
    EXPECT_EQ((co_await p.client.compare_swap(remote, 15, 200, kPatience)).value_or_throw(), 100U);
    const auto adder = [](Endpoint& end, RemoteRef<std::uint64_t> where) -> Task<> {
      for (int i = 0; i < 100; ++i) (co_await end.fetch_add(where, 1, kPatience)).value_or_throw();
    };
    co_await when_all(adder(p.client, remote), adder(p.server, remote), adder(p.client, remote));
    EXPECT_EQ((co_await p.client.read(remote, kPatience)).value_or_throw(), 400U);
  }(pair, opened.remote()[0]));
  EXPECT_EQ(counter[0], 400U);
}

TEST_F(OneSided, WhatDoesNotFitIsSaidAtOnce) {
  Pair pair = connect();
  Buffer target = take(64);
  auto opened = share(context_, target, Access::kRead | Access::kWrite).value_or_throw();
  run([](World&, Endpoint& end, RemoteSpan<std::byte> remote, Buffer large, Buffer small) -> Task<> {
    EXPECT_EQ((co_await end.write(std::move(large), remote, kPatience)).error().code(), Code::kTooLarge);
    RemoteSpan<std::byte> wide(remote.address(), remote.key(), 100000);
    EXPECT_EQ((co_await end.read(wide, std::move(small), kPatience)).error().code(), Code::kTooLarge);
    EXPECT_TRUE(end.open());
  }(*this, pair.client, opened.remote(), take(65), take(64)));
}

TEST_F(OneSided, RevokedMemoryIsRefusedByName) {
  Pair pair = connect();
  Pair other = connect();
  Buffer target = take(64);
  auto opened = share(context_, target, Access::kRead).value_or_throw();
  const RemoteSpan<std::byte> remote = opened.remote();
  run([](Pair& p, Pair& o, RemoteSpan<std::byte> r, Share<std::byte>& s, Buffer a, Buffer b) -> Task<> {
    EXPECT_TRUE((co_await p.client.read(r, std::move(a), kPatience)).ok());
    s.revoke();
    auto read = co_await p.client.read(r, std::move(b), kPatience);
    EXPECT_TRUE(refused_access(read.error())) << read.error().what();
    EXPECT_EQ(read.error().peer(), p.client.peer());
    EXPECT_FALSE(p.client.open()) << "the transport ends a connection over this";
    EXPECT_FALSE((co_await p.server.receive(kPatience)).ok());
    (co_await o.client.send("undisturbed", kPatience)).value_or_throw();
    EXPECT_EQ((co_await o.server.receive(kPatience)).value_or_throw().text(), "undisturbed");
  }(pair, other, remote, opened, take(64), take(64)));
}

TEST_F(OneSided, ReadOnlyMemoryIsNotWritten) {
  Pair pair = connect();
  Buffer target = take(64);
  std::memset(target.data(), 1, target.size());
  auto opened = share(context_, target, Access::kRead).value_or_throw();
  run([](Pair& p, RemoteSpan<std::byte> remote, Buffer buffer) -> Task<> {
    std::memset(buffer.data(), 2, buffer.size());
    EXPECT_TRUE(refused_access((co_await p.client.write(std::move(buffer), remote, kPatience)).error()));
  }(pair, opened.remote(), take(64)));
  EXPECT_EQ(target.data()[0], std::byte{1});
}

}  // namespace comm_test::atomic_test
