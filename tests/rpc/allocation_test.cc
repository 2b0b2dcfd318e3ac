// A unary call takes no memory from the heap once the first ones have been made: neither the client nor the server.
#include <vector>

#include "tests/comm/counted_allocations.h"
#include "tests/rpc/world.h"

namespace rpc_test {
namespace {

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

TEST_F(Allocations, NoneWithManyUnderWay) {
  Channel channel = connect();
  std::size_t before = 0;
  std::size_t after = 0;
  const auto all = [&]() -> Task<bool> {
    std::vector<Task<bool>> callers;
    for (int i = 0; i < 32; ++i) callers.push_back(calls(channel, 500));
    // In the middle, when all of them have begun and none has ended.
    callers.push_back([](Channel& on, std::size_t& from, std::size_t& to) -> Task<bool> {
      bool good = co_await calls(on, 150);
      from = allocations;
      good = co_await calls(on, 150) && good;
      to = allocations;
      co_return good;
    }(channel, before, after));
    auto done = co_await when_all(std::move(callers));
    bool good = true;
    for (const bool one : done) good = good && one;
    co_return good;
  };
  EXPECT_TRUE(run(all()));
  // On a busy machine more may be under way than ever before: what grows for that does so once, and not for a call.
  EXPECT_LE(after - before, 4U) << "in about 5000 calls";
}

}  // namespace
}  // namespace rpc_test
