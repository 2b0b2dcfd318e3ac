// Memory windows: open to one peer, closed when destroyed, and refused with a reason if the device has none.
#include <array>
#include <cstring>
#include <vector>

#include "tests/libraries/comm/world.h"

namespace comm_test::window_test {

class Windows : public World {
 protected:
  void SetUp() override {
    if (!context_.device().memory_windows) GTEST_SKIP() << "the device has no memory windows";
  }
};

constexpr std::array<int, 4> kTable = {1, 2, 3, 4};  // in read-only pages

TEST_F(Windows, ConstObjectsForReadingOnly) {
  Pair pair = connect();
  run([](Context& context, Pair& p) -> Task<> {
    auto shared = share(context, std::span<const int>(kTable), Access::kRead).value_or_throw();
    const std::vector<int> table(kTable.begin(), kTable.end());
    auto lent = (co_await p.server.lend(std::span(table), Access::kRead, kPatience)).value_or_throw();
    EXPECT_EQ((co_await p.client.read(shared.remote()[2], kPatience)).value_or_throw(), 3);
    EXPECT_EQ((co_await p.client.read(lent.remote()[3], kPatience)).value_or_throw(), 4);
    const auto written = share(context, std::span<const int>(kTable), Access::kWrite);
    EXPECT_EQ(written.error().code(), Code::kInvalid);
    const auto bound = co_await p.server.lend(std::span(table), Access::kAtomic, kPatience);
    EXPECT_EQ(bound.error().code(), Code::kInvalid);
    EXPECT_TRUE(p.server.open());
  }(context_, pair));
}

TEST_F(Windows, OpenToTheirPeerAlone) {
  Pair pair = connect();
  Pair other = connect();
  std::vector<std::uint64_t> table(1000, 7);
  run([](Pair& p, Pair& o, std::vector<std::uint64_t>& rows, Buffer a, Buffer b) -> Task<> {
    auto window = (co_await p.server.lend(std::span(rows), Access::kRead, kPatience)).value_or_throw();
    a = (co_await p.client.read(window.remote(), std::move(a), kPatience)).value_or_throw();
    EXPECT_EQ(a.as<std::uint64_t>()[999], 7U);
    auto stranger = co_await o.client.read(window.remote(), std::move(b), kPatience);
    EXPECT_TRUE(refused_access(stranger.error())) << "another peer knows the key";
    (co_await p.client.send("undisturbed", kPatience)).value_or_throw();
    EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().text(), "undisturbed");
  }(pair, other, table, take(8000), take(8000)));
}

TEST_F(Windows, ClosedByTheirEnd) {
  Pair pair = connect();
  std::vector<std::uint64_t> table(10, 7);
  run([](Pair& p, std::vector<std::uint64_t>& rows, Buffer a, Buffer b) -> Task<> {
    RemoteSpan<std::uint64_t> where;
    {
      auto window = (co_await p.server.lend(std::span(rows), Access::kWrite, kPatience)).value_or_throw();
      where = window.remote();
      std::memset(a.data(), 1, a.size());
      a = (co_await p.client.write(std::move(a), where, kPatience)).value_or_throw();
      EXPECT_EQ(rows[0], 0x0101010101010101U);
    }
    std::memset(b.data(), 2, b.size());
    EXPECT_TRUE(refused_access((co_await p.client.write(std::move(b), where, kPatience)).error()));
    EXPECT_EQ(rows[0], 0x0101010101010101U);
  }(pair, table, take(80), take(80)));
}

TEST_F(Windows, OnlyWhatWasAllowed) {
  Pair pair = connect();
  std::vector<std::uint64_t> table(10, 7);
  run([](Pair& p, std::vector<std::uint64_t>& rows, Buffer a) -> Task<> {
    auto window = (co_await p.server.lend(std::span(rows), Access::kRead, kPatience)).value_or_throw();
    EXPECT_TRUE(refused_access((co_await p.client.write(std::move(a), window.remote(), kPatience)).error()));
    EXPECT_EQ(rows[0], 7U);
    EXPECT_EQ((co_await p.server.lend(std::span<int>(), Access::kRead)).error().code(), Code::kPeerGone);
  }(pair, table, take(80)));
}

TEST_F(Windows, GivenUpAtEveryPointAndOutlivingTheirEndpoint) {
  std::vector<std::uint64_t> table(100, 7);
  for (int polls = 0; polls < 12; ++polls) {
    Pair pair = connect();
    {
      auto lost = pair.server.lend(std::span(table), Access::kRead);
      lost.start();
      for (int i = 0; i < polls; ++i) context_.poll();
    }
    auto kept = run(as_task(pair.server.lend(std::span(table), Access::kRead, kPatience))).value_or_throw();
    pair = Pair();
    settle();
    EXPECT_TRUE(kept);
  }
}

TEST_F(Windows, NothingToLend) {
  Pair pair = connect();
  auto lent = run(as_task(pair.server.lend(std::span<int>(), Access::kRead, kPatience)));
  EXPECT_EQ(lent.error().code(), Code::kInvalid);
  EXPECT_EQ(lent.error().peer(), pair.server.peer());
}

}  // namespace comm_test::window_test
