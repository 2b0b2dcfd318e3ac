// In the steady state, a unary call makes no heap allocation, neither in the client nor in the server.
#include <vector>

#include "tests/libraries/comm/counted_allocations.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::allocation_test {

class Allocations : public World {
 protected:
  static Task<bool> calls(Channel& on, int count) {
    bool good = true;
    for (int i = 0; i < count; ++i) {
      auto sum = co_await on.call<&Desk::add>({40, 2}, kPatience);
      good = good && sum.ok() && *sum == 42;
    }
    co_return good;
  }
};

TEST_F(Allocations, NoneInSteadyState) {
  Channel channel = connect();
  EXPECT_TRUE(run(calls(channel, 2000)));
  const std::size_t before = allocations;
  EXPECT_TRUE(run(calls(channel, 1000)));
  EXPECT_EQ(allocations - before, 0U) << "in 1000 calls";
}

// Waiting replies and the memory for packs are kept for reuse. A busy machine may still allocate more of
// them, until there are as many as calls in flight. An allocation in each call would show in every slice of
// time.
TEST_F(Allocations, NoneWithManyUnderWay) {
  Channel channel = connect();
  bool over = false;
  std::vector<std::size_t> taken;  // in about 5000 calls each
  const auto call_on = [](Channel& on, const bool& enough) -> Task<bool> {
    bool good = true;
    while (!enough && good) good = co_await calls(on, 10);
    co_return good;
  };
  const auto watch = [](Channel& on, bool& enough, std::vector<std::size_t>& counts) -> Task<bool> {
    counts.reserve(20);
    // All of them have started and none has ended.
    bool good = co_await calls(on, 150);
    while (good && counts.size() < 20 && (counts.empty() || counts.back() != 0)) {
      const std::size_t before = allocations;
      good = co_await calls(on, 150);
      counts.push_back(allocations - before);
    }
    enough = true;
    co_return good;
  };
  const auto all = [&]() -> Task<bool> {
    std::vector<Task<bool>> callers;
    for (int i = 0; i < 32; ++i) callers.push_back(call_on(channel, over));
    callers.push_back(watch(channel, over, taken));
    auto done = co_await when_all(std::move(callers));
    bool good = true;
    for (const bool one : done) good = good && one;
    co_return good;
  };
  EXPECT_TRUE(run(all()));
  ASSERT_FALSE(taken.empty());
  EXPECT_EQ(taken.back(), 0U) << "after " << taken.size() << " parts of the time";
}

}  // namespace rpc_test::allocation_test
