// A unary call takes no memory from the heap once the first ones have been made: neither the client nor the server.
#include <cstdlib>
#include <new>

#include "tests/rpc/world.h"

namespace {
std::size_t allocations = 0;
}

// The compiler sees that one calls malloc and the other free, and takes it for a mistake.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rpc_test {
namespace {

class Allocations : public World {};

TEST_F(Allocations, NoneInSteadyState) {
  Channel channel = connect();
  const auto calls = [](Channel& on, int count) -> Task<bool> {
    bool good = true;
    for (int i = 0; i < count; ++i) {
      auto sum = co_await on.call<&Desk::add>({40, 2}, kPatience);
      good = good && sum.ok();
    }
    co_return good;
  };
  EXPECT_TRUE(run(calls(channel, 200)));
  const std::size_t before = allocations;
  EXPECT_TRUE(run(calls(channel, 1000)));
  EXPECT_LE(allocations - before, 20U) << "of 1000 calls; the device below may take some";
}

}  // namespace
}  // namespace rpc_test
