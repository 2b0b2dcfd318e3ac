// A swarm: random calls of every kind, with deadlines, cancellations, drops, closed channels, drains and
// kills, checked by an oracle (swarm.h). `swarm FIRST COUNT [N]` runs that many seeds, every N-th with a kill
// (swarm_kills.h). A failure prints its seed.
//
// At the end of each seed nothing runs, no slot is taken, and all memory is released.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "tests/libraries/rpc/swarm.h"
#include "tests/libraries/rpc/swarm_kills.h"

using namespace rpc_swarm;

namespace {

// A kill needs a process that opens the device, and time until all survivors notice. One seed in this many
// has one.
std::uint64_t seeds_for_a_kill = 10;
std::uint64_t kills = 0;
comm::Clock::duration longest_until_all_knew{};

Task<> one_channel(World& world, std::string address, std::uint64_t seed) {
  Random random(seed);
  Way way;
  auto connected = co_await rpc::connect(world.context, address, any_channel(random, way), kFar);
  if (!connected.ok()) fail(world.seed, "connect: " + connected.status().what());
  rpc::Channel channel = std::move(*connected);
  comm::Scope calls;
  for (std::uint32_t i = 5 + random.below(30); i > 0; --i) {
    calls.spawn(any_call(world, channel, seed * 1000 + i, way));
    if (random.chance(30))
      static_cast<void>(co_await world.context.sleep(std::chrono::microseconds(random.below(500))));
  }
  if (random.chance(15)) {
    way.cut = true;
    channel.close();
  }
  co_await calls.join();
  const bool free = way.cut || channel.calls() == 0;
  // Calls that were given up are answered as well.
  for (int i = 0; !free && i < 2000 && channel.calls() != 0; ++i)
    static_cast<void>(co_await world.context.sleep(5ms));
  if (!way.cut && channel.calls() != 0) fail(world.seed, "a call that was given up kept its slot");
  judge_all(world, way);
}

Task<> one_kill(World& world, std::string survivor) {
  longest_until_all_knew =
      std::max(longest_until_all_knew, co_await kill_somebody(world, survivor, world.seed));
  ++kills;
}

Task<> one_world(World& world, rpc::Server& server) {
  Random random(world.seed);
  const std::string address(server.address());
  comm::Scope scope;
  for (std::uint32_t i = 1 + random.below(3); i > 0; --i)
    scope.spawn(one_channel(world, address, world.seed * 10 + i));
  if (world.seed % seeds_for_a_kill == 0) scope.spawn(one_kill(world, address));
  co_await scope.join();
  rpc::Status drained = co_await server.drain(kFar);
  if (!drained.ok()) fail(world.seed, "drain: " + drained.what());
}

// Fails if the seed does not end.
Task<> watch(const World& world) {
  co_await seeds::time_to_run(world.context, seeds::kPatience);
  std::string left = "it does not end; calls that did not:";
  for (const std::uint32_t number : world.open) left += ' ' + std::to_string(number);
  fail(world.seed, left);
}

void run_seed(std::uint64_t seed) {
  static comm::Context context = comm::Context::open().value_or_throw();
  {
    Ledger ledger;
    Bench bench(ledger, seed);
    Random random(seed);
    rpc::Server server(context, any_server(random));
    bench.add_to(server);
    const rpc::Status listening = server.listen(address_of(context) + ":0");
    if (!listening.ok()) fail(seed, listening.what());
    World world{context, ledger, seed};
    context.run(comm::when_any(one_world(world, server), watch(world)));
    if (server.calls() != 0 || server.counters().broken != 0)
      fail(seed, "a handler still runs, or an end broke the protocol");
  }
  const auto alone = [] { return context.endpoints() == 0; };
  if (!seeds::run_until(context, alone)) fail(seed, "an endpoint is left");
  if (context.pool().in_use() != 0)
    fail(seed, std::to_string(context.pool().in_use()) + " octets did not come back");
}

}  // namespace

int main(int count, char** words) {
  if (count > 1 && std::string_view(words[1]) == "victim") return be_killed(count, words);
  if (count < 3) return std::fprintf(stderr, "usage: swarm FIRST COUNT [N]\n"), 2;
  const std::uint64_t first = std::strtoull(words[1], nullptr, 10);
  const std::uint64_t seeds = std::strtoull(words[2], nullptr, 10);
  if (count > 3) seeds_for_a_kill = std::strtoull(words[3], nullptr, 10);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) run_seed(seed);
  std::printf("%llu seeds from %llu: good; %llu kills, of which all knew after %.3f s at most\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(kills),
              std::chrono::duration<double>(longest_until_all_knew).count());
}
