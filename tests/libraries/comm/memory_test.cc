// Pools and buffers: limits, quotas, waiting, reuse; and no allocation for a message in the steady state.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/libraries/comm/counted_allocations.h"
#include "tests/libraries/comm/world.h"

namespace comm_test::memory_test {

class Memory : public World {};

TEST_F(Memory, SizesAndReuse) {
  for (const std::size_t size : {0UL, 1UL, 64UL, 65UL, 4096UL, 65536UL, 65537UL, 1000000UL, 5000000UL}) {
    Buffer buffer = take(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_GE(buffer.capacity(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    const std::byte* where = buffer.data();
    buffer = Buffer();
    EXPECT_EQ(take(size).data(), where);
  }
  const std::size_t registered = context_.pool().registered();
  for (int i = 0; i < 1000; ++i) take(5000000);
  EXPECT_EQ(context_.pool().registered(), registered);
}

// Whether huge pages were requested for the mapping of this byte.
bool wants_huge_pages(const std::byte* where) {
  const auto address = reinterpret_cast<std::uintptr_t>(where);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= address && address < end;
    if (here && line.rfind("VmFlags:", 0) == 0) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST_F(Memory, LargePiecesLieInHugePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "this system has none";
  Pool pool = Pool::create(context_).value_or_throw();
  std::vector<Buffer> large;
  for (int i = 0; i < 9; ++i) {
    large.push_back(pool.take(1_MiB).value_or_throw());
    std::memset(large.back().data(), i, 1_MiB);
  }
  EXPECT_LE(pool.registered(), 18_MiB) << "as many again as there are, at most";
  for (std::size_t i = 0; i < large.size(); ++i) {
    EXPECT_TRUE(wants_huge_pages(large[i].data()));
    EXPECT_EQ(large[i].bytes().front(), std::byte(i));
    EXPECT_EQ(large[i].bytes().back(), std::byte(i));
  }
  EXPECT_FALSE(wants_huge_pages(pool.take(64_KiB).value_or_throw().data()));
}

TEST_F(Memory, WrappedMemoryIsNotCopied) {
  constexpr std::size_t kSize = 100000;
  Pair pair = connect();
  auto owner = std::make_shared<const std::vector<std::byte>>(kSize, std::byte{7});
  const std::size_t in_use = context_.pool().in_use();
  const auto wrap = [&](std::size_t size) {
    return context_.pool()
        .wrap(std::span(*owner).first(size), std::const_pointer_cast<std::vector<std::byte>>(owner))
        .value_or_throw();
  };
  Buffer wrapped = wrap(kSize);
  EXPECT_EQ(wrapped.data(), owner->data());
  EXPECT_TRUE(Pool::wrapped(wrapped));
  EXPECT_EQ(context_.pool().in_use(), in_use);
  EXPECT_EQ(owner.use_count(), 2);
  const RemoteSpan<const std::byte> there(wrapped.remote().address(), wrapped.remote().key(), kSize);
  auto read = run(as_task(pair.server.read(there, take(kSize), kPatience)));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::equal(owner->begin(), owner->end(), read->bytes().begin()));
  // There is no room for a header before it, and it may be read-only.
  wrapped = wrap(100);
  EXPECT_EQ(run(as_task(pair.client.send(std::move(wrapped), kPatience))).error().code(), Code::kInvalid);
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(context_.pool().wrap({}, nullptr).error().code(), Code::kInvalid);
  EXPECT_FALSE(Pool::wrapped(take(1)));
}

// A peer may choose the sizes, so pieces of one size must not stay when another is asked for.
TEST_F(Memory, ManySizesDoNotAddUp) {
  for (const Access remote : {Access::kNone, Access::kRead}) {
    auto pool = Pool::create(context_, {.limit = 8_MiB, .remote = remote}).value_or_throw();
    const Buffer small = pool.take(100).value_or_throw();
    for (std::size_t i = 0; i < 300; ++i) {
      Buffer piece = pool.take(1_MiB + i * 4096).value_or_throw();
      std::memset(piece.data(), 1, piece.size());
      ASSERT_LE(pool.registered(), 18_MiB) << i;
    }
    EXPECT_EQ(pool.in_use(), small.capacity());
  }
}

// A small piece in each slab keeps all of them: the pool says so, and grows again when they are free.
TEST_F(Memory, PinnedSlabsAreBounded) {
  auto pool = Pool::create(context_, {.limit = 8_MiB, .remote = Access::kRead}).value_or_throw();
  std::vector<Buffer> pins;
  bool full = false;
  for (std::size_t i = 0; i < 100 && !full; ++i) {
    const auto piece = pool.take(900_KiB + i * 4096);
    full = !piece;
    auto pin = pool.take(64_KiB - i);
    if (pin) pins.push_back(std::move(*pin));
    ASSERT_LE(pool.registered(), 19_MiB) << i;
  }
  EXPECT_TRUE(full);
  pins.clear();
  EXPECT_TRUE(pool.take(4_MiB));
}

TEST_F(Memory, AnExhaustedPoolSaysSo) {
  Pool pool = Pool::create(context_, {.limit = 10000}).value_or_throw();
  Buffer a = pool.take(4096).value_or_throw();
  Buffer b = pool.take(4096).value_or_throw();
  auto c = pool.take(4096);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().code(), Code::kNoMemory);
  EXPECT_NE(c.error().what().find("8192 of at most 10000"), std::string::npos) << c.error().what();
  a = Buffer();
  EXPECT_TRUE(pool.take(4096).ok());
  EXPECT_EQ(pool.in_use(), 4096U);
  EXPECT_EQ(run(as_task(pool.wait(20000, kPatience))).error().code(), Code::kNoMemory)
      << "what can never come is not waited for";
  EXPECT_EQ(run(as_task(pool.wait(8192, 10ms))).error().code(), Code::kDeadline);
}

TEST_F(Memory, WaitingForABuffer) {
  Pool pool = Pool::create(context_, {.limit = 8192}).value_or_throw();
  run([](Pool& p) -> Task<> {
    Buffer held = p.take(8192).value_or_throw();
    int served = 0;
    Scope scope;
    for (int i = 0; i < 3; ++i) {
      scope.spawn([](Pool& q, int& count, int number) -> Task<> {
        Buffer buffer = (co_await q.wait(8192, kPatience)).value_or_throw();
        EXPECT_EQ(count++, number);
      }(p, served, i));
    }
    EXPECT_EQ(served, 0);
    held = Buffer();
    co_await scope.join();
    EXPECT_EQ(served, 3);
  }(pool));
}

TEST_F(Memory, QuotasDrawFromOnePool) {
  Pool pool = Pool::create(context_, {.limit = 100000}).value_or_throw();
  Pool one = pool.quota(8192);
  Pool two = pool.quota(8192);
  Buffer a = one.take(8192).value_or_throw();
  EXPECT_FALSE(one.take(1).ok());
  EXPECT_TRUE(two.take(8192).ok());
  EXPECT_EQ(pool.in_use(), 8192U);
  a = Buffer();
  EXPECT_EQ(pool.in_use(), 0U);
  EXPECT_TRUE(one.take(8192).ok());
}

// Takes a piece, records it, and returns it.
Task<> take_turn(Pool& pool, std::size_t size, Limit limit, std::vector<int>& served, int number) {
  auto buffer = co_await pool.wait(size, std::move(limit));
  served.push_back(buffer.ok() ? number : -number);
}

TEST_F(Memory, WhoGivesUpLetsOthersPass) {
  Pool pool = Pool::create(context_, {.limit = 8192}).value_or_throw();
  run([](Context& context, Pool& p) -> Task<> {
    const Buffer held = p.take(4096).value_or_throw();
    std::vector<int> served;
    Scope scope;
    scope.spawn(take_turn(p, 8192, 50ms, served, 1));
    scope.spawn(take_turn(p, 4096, kPatience, served, 2));
    (co_await context.sleep(1ms)).value();
    EXPECT_TRUE(served.empty()) << "first come, first served";
    co_await scope.join();
    std::sort(served.begin(), served.end());
    EXPECT_EQ(served, (std::vector<int>{-1, 2}))
        << "while the memory that the first one lacked is still held";
  }(context_, pool));
}

TEST_F(Memory, AQuotaWaitsForItsPoolAsWell) {
  Pool pool = Pool::create(context_, {.limit = 8192}).value_or_throw();
  Pool one = pool.quota(8192);
  Pool two = pool.quota(8192);
  run([](Context& context, Pool& p, Pool& q) -> Task<> {
    Buffer held = p.take(8192).value_or_throw();
    std::vector<int> served;
    Scope scope;
    scope.spawn(take_turn(q, 4096, kPatience, served, 1));
    (co_await context.sleep(1ms)).value();
    EXPECT_TRUE(served.empty());
    held = Buffer();
    co_await scope.join();
    EXPECT_EQ(served, (std::vector<int>{1}));
  }(context_, one, two));
}

TEST_F(Memory, AFullQuotaHoldsUpNobodyElse) {
  Pool pool = Pool::create(context_, {.limit = 100000}).value_or_throw();
  Pool one = pool.quota(8192);
  Pool two = pool.quota(8192);
  run([](Context& context, Pool& p, Pool& q) -> Task<> {
    Buffer held = p.take(4096).value_or_throw();
    std::vector<int> served;
    Scope scope;
    scope.spawn(take_turn(p, 8192, kPatience, served, 1));
    scope.spawn(take_turn(p, 4096, kPatience, served, 2));
    scope.spawn(take_turn(q, 8192, kPatience, served, 3));
    (co_await context.sleep(1ms)).value();
    EXPECT_EQ(served, (std::vector<int>{3}));
    EXPECT_EQ((co_await q.wait(9000, kPatience)).error().code(), Code::kNoMemory);
    held = Buffer();
    co_await scope.join();
    EXPECT_EQ(served, (std::vector<int>{3, 1, 2}));
  }(context_, one, two));
}

TEST_F(Memory, NoAllocationForAMessage) {
  if (kSanitized) GTEST_SKIP() << "frames come from the heap under sanitizers";
  Pair pair = connect();
  const auto echo = [](Endpoint& end, int count) -> Task<> {
    for (int i = 0; i < count; ++i) {
      Message message = *co_await end.receive(kPatience);
      (co_await end.send(message.as<std::uint64_t>(), kPatience)).value();
    }
  };
  const auto ask = [](Endpoint& end, Buffer buffer, int count) -> Task<> {
    for (int i = 0; i < count; ++i) {
      buffer = *co_await end.send(std::move(buffer), kPatience);
      static_cast<void>(*co_await end.receive(kPatience));
    }
  };
  run(when_all(echo(pair.server, 200), ask(pair.client, take(1000), 200)));
  const std::size_t before = allocations;
  run(when_all(echo(pair.server, 2000), ask(pair.client, take(1000), 2000)));
  EXPECT_EQ(allocations - before, 0U);
}

TEST_F(Memory, AScopeWithoutMemoryForATask) {
  if (kSanitized) GTEST_SKIP() << "operator new is not replaced";
  const auto wait = []() -> Task<> { co_await std::suspend_always(); };
  std::vector<Task<>> tasks;
  for (int i = 0; i < 5000; ++i) tasks.push_back(wait());  // more than there are free frames
  Scope scope;
  std::size_t begun = 0;
  bool failed = false;
  exhausted = true;
  try {
    for (; begun < tasks.size(); ++begun) scope.spawn(std::move(tasks[begun]));
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  exhausted = false;
  EXPECT_TRUE(failed);
  EXPECT_EQ(scope.size(), begun);
}

}  // namespace comm_test::memory_test
