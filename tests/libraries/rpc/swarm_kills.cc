#include "tests/libraries/rpc/swarm_kills.h"

#include <cstdlib>
#include <utility>

namespace rpc_swarm {
namespace {

// Probe silent peers, so that a caller that only waits also notices a death.
constexpr std::chrono::milliseconds kKeepAlive{100};
// Limits of a channel: calls in flight, in total, and after the kill.
constexpr std::size_t kMostUnderWay = 40;
constexpr std::size_t kMostCalls = 4000;
constexpr std::size_t kLateCalls = 5;

// Choices that both sides derive from the seed.
struct Plan {
  explicit Plan(std::uint64_t seed) {
    Random random(~seed);
    client_dies = random.chance(35);
    drains = random.chance(20);
    patient = random.chance(50);
    threads = random.chance(20) ? 2 : 0;
  }
  bool client_dies;
  bool drains;       // the server to be killed may start to drain
  bool patient;      // and waits for the calls that it has started
  unsigned threads;  // of that server
};

struct Scene {
  World& world;
  std::uint64_t seed;
  seeds::Victim victim = {};
  bool killed = false;
  comm::Scope callers = {};
};

// Starts calls with `start`, one after the other, until shortly after the kill.
template <typename Start>
Task<> call_until_killed(Scene& scene, comm::Scope& calls, Random& random, Start start) {
  std::size_t begun = 0;
  for (std::size_t late = 0; late < kLateCalls;) {
    if (calls.size() < kMostUnderWay && begun < kMostCalls) {
      calls.spawn(start());
      ++begun;
      if (scene.killed) ++late;
    } else if (scene.killed) {
      break;
    }
    // Sometimes many at once.
    if (!random.chance(80))
      static_cast<void>(co_await scene.world.context.sleep(std::chrono::microseconds(random.below(1000))));
  }
  co_await calls.join();
}

// One channel to `address`, and calls on it.
Task<> call_by_channel(Scene& scene, std::string address, Way way, std::uint64_t seed) {
  Random random(seed);
  rpc::ChannelOptions options = any_channel(random, way);
  options.keep_alive = kKeepAlive;
  auto connected = co_await rpc::connect(scene.world.context, address, options, kFar);
  if (!connected.ok()) {
    if (!may_fail(way) || connected.status().code() != rpc::Code::kUnavailable)
      fail(scene.seed, "connecting: " + connected.status().what());
    co_return;
  }
  const rpc::Channel channel = std::move(*connected);
  comm::Scope calls;
  std::uint64_t one = seed * 1000;
  co_await call_until_killed(scene, calls, random,
                             [&] { return any_call(scene.world, channel, ++one, way); });
  judge_all(scene.world, way);
}

// A client with two servers.
Task<> call_by_client(Scene& scene, std::vector<std::string> addresses, Way way, std::uint64_t seed) {
  Random random(seed);
  rpc::ClientOptions options;
  options.pick = random.chance(50) ? rpc::Pick::kFirst : rpc::Pick::kRoundRobin;
  options.first_pause = 1ms;
  options.connect = kFar;
  options.seed = seed;
  options.channel = any_channel(random, way);
  options.channel.keep_alive = kKeepAlive;
  rpc::Client client(scene.world.context, std::move(addresses), options);
  comm::Scope calls;
  std::uint64_t one = seed * 1000;
  co_await call_until_killed(scene, calls, random,
                             [&] { return any_client_call(scene.world, client, ++one, way); });
  way.repeated = client.counters().repeated;
  judge_all(scene.world, way);
}

// Kills at a random time. Returns the time from the kill until `over` ends. `server`: the victim's server, or
// null.
Task<comm::Clock::duration> kill_and_wait(Scene& scene, Task<> over, const rpc::Server* server) {
  comm::Context& context = scene.world.context;
  co_await comm::when_any(seeds::await_the_moment(context, scene.seed),
                          scene.victim.pulses->killer.beat(context));
  scene.killed = true;
  seeds::kill(scene.victim, scene.seed);
  const auto begin = comm::Clock::now();
  const auto first =
      co_await comm::when_any(std::move(over), seeds::time_to_run(context, seeds::kPatience / 3));
  if (first.index() == 1) {
    std::string left = std::to_string(scene.callers.size()) + " callers";
    if (server != nullptr)
      left += ", " + std::to_string(server->connections()) + " connections and " +
              std::to_string(server->calls()) + " handlers";
    fail(scene.seed, "not over although the peer is dead: " + left);
  }
  co_return comm::Clock::now() - begin;
}

Task<comm::Clock::duration> kill_a_server(Scene& scene, const Plan& plan, std::string survivor) {
  Random random(scene.seed);
  Way way;
  way.killed = &scene.killed;
  way.pulse = &scene.victim.pulses->victim;
  way.drains = plan.drains;
  way.patient = plan.patient;
  for (std::uint64_t i = 1 + random.below(3); i > 0; --i)
    scene.callers.spawn(call_by_channel(scene, scene.victim.address, way, scene.seed * 10 + i));
  if (random.chance(60))
    scene.callers.spawn(
        call_by_client(scene, {scene.victim.address, std::move(survivor)}, way, scene.seed * 10));
  co_return co_await kill_and_wait(scene, scene.callers.join(), nullptr);
}

Task<comm::Clock::duration> kill_a_client(Scene& scene, rpc::Server& server, const std::size_t& ended) {
  scene.callers.spawn(call_by_channel(scene, std::string(server.address()), Way(), scene.seed * 10));
  const auto alone = [&server, &scene] {
    return scene.callers.size() == 0 && server.connections() == 0 && server.calls() == 0;
  };
  const auto waited = co_await kill_and_wait(scene, seeds::until(scene.world.context, alone), &server);
  const rpc::ServerCounters counters = server.counters();
  if (counters.broken != 0) fail(scene.seed, "a client that was killed broke the protocol");
  if (counters.calls != ended)
    fail(scene.seed,
         std::to_string(counters.calls) + " calls were begun and " + std::to_string(ended) + " ended");
  co_return waited;
}

std::vector<std::string> words_for(const Scene& scene, std::string_view address) {
  return {std::to_string(scene.seed), std::to_string(scene.world.ledger.descriptor()), std::string(address)};
}

void listen(rpc::Server& server, const comm::Context& context, std::uint64_t seed) {
  const rpc::Status listening = server.listen(address_of(context) + ":0");
  if (!listening.ok()) fail(seed, listening.what());
}

}  // namespace

Task<comm::Clock::duration> kill_somebody(World& world, std::string survivor, std::uint64_t seed) {
  const Plan plan(seed);
  Scene scene{world, seed};
  if (!plan.client_dies) {
    scene.victim = seeds::start_victim(seed, words_for(scene, ""));
    co_return co_await kill_a_server(scene, plan, std::move(survivor));
  }
  Random random(seed);
  Bench bench(world.ledger, seed);
  std::size_t ended = 0;
  rpc::ServerOptions options = any_server(random);
  options.keep_alive = kKeepAlive;
  options.after = [&ended](const auto&...) { ++ended; };
  rpc::Server server(world.context, options);
  bench.add_to(server);
  listen(server, world.context, seed);
  scene.victim = seeds::start_victim(seed, words_for(scene, server.address()));
  co_return co_await kill_a_client(scene, server, ended);
}

// ---- the victim ----

namespace {

Task<> serve(World& world, const Plan& plan) {
  Random random(world.seed);
  Bench bench(world.ledger, world.seed);
  rpc::ServerOptions options = any_server(random);
  options.keep_alive = kKeepAlive;
  options.threads = plan.threads;
  rpc::Server server(world.context, options);
  bench.add_to(server);
  listen(server, world.context, world.seed);
  seeds::say_where(std::string(server.address()), world.seed);
  if (plan.drains) {
    static_cast<void>(co_await world.context.sleep(std::chrono::microseconds(random.below(20000))));
    static_cast<void>(co_await server.drain(
        plan.patient ? comm::Limit(kFar) : comm::Limit(std::chrono::microseconds(random.below(20000)))));
  }
  static_cast<void>(co_await world.context.sleep(1h));
}

Task<> call(World& world, std::string address) {
  Random random(world.seed);
  Scene nobody_is_killed{world, world.seed};
  seeds::say_where(address, world.seed);
  Way way;
  way.pulse = &seeds::pulses_of_this_victim().killer;
  for (std::uint64_t i = 1 + random.below(3); i > 0; --i)
    nobody_is_killed.callers.spawn(call_by_channel(nobody_is_killed, address, way, world.seed * 10 + i));
  co_await nobody_is_killed.callers.join();
}

}  // namespace

int be_killed(int count, char** words) {
  seeds::end_with_parent();
  if (count != 5) return 2;
  const std::uint64_t seed = std::strtoull(words[2], nullptr, 10);
  const Plan plan(seed);
  Ledger ledger(std::atoi(words[3]));
  comm::Context context = comm::Context::open().value_or_throw();
  // Use a separate range of numbers.
  World world{context, ledger, seed, kNumbers / 2};
  context.run(comm::when_any(seeds::pulses_of_this_victim().victim.beat(context),
                             plan.client_dies ? call(world, words[4]) : serve(world, plan)));
  return 0;
}

}  // namespace rpc_swarm
