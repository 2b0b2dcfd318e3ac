// A swarm: random calls of every kind, with deadlines, cancellations, drops, aborted connections and drains, and an oracle. `swarm FIRST COUNT` runs that many
// seeds; a failure prints its seed.
//
// The oracle: every call has a number of its own. A call that ended well was executed exactly once, every other one at most once; what a good
// call gave is right; items of a stream come in order, without gaps, and all of them if its end was good; at the end nothing runs, no slot is
// taken, and all memory has come back.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "rrdma/rpc/rpc.h"

using namespace rrdma;
using namespace std::chrono_literals;
using comm::Task;

namespace {

constexpr auto kPatience = 20s;
std::uint64_t current_seed = 0;

[[noreturn]] void fail(const std::string& what) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(current_seed), what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  std::uint32_t size() { return chance(70) ? below(300) : chance(70) ? below(9000) : below(200000); }
  rpc::CallOptions options() {
    rpc::CallOptions options;
    options.limit = chance(75) ? comm::Limit(kPatience) : comm::Limit(std::chrono::microseconds(below(3000)));
    if (chance(30)) options.lend = 1 + below(200000);
    if (chance(20)) options.metadata.add("n", std::string(below(200), 'm'));
    return options;
  }

 private:
  std::mt19937_64 engine_;
};

// The number in front, then a pattern of it.
std::string text_of(std::uint32_t number, std::uint32_t size) {
  std::string text(size + 4, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(number * 31 + i * 7);
  for (std::size_t i = 0; i < 4; ++i) text[i] = static_cast<char>(number >> (8 * i));
  return text;
}
std::uint32_t number_of(const std::string& text) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  return number;
}

struct Items {
  std::uint32_t number;
  std::uint32_t count;
  std::uint32_t size;
};

struct Bench {
  void executed(std::uint32_t number) {
    if (++executions[number] > 1) fail("call " + std::to_string(number) + " was executed twice");
  }
  Task<rpc::Result<std::string>> echo(rpc::Call& call, const std::string& text) {
    executed(number_of(text));
    if (number_of(text) % 3 == 0) {
      auto slept =
          co_await call.context().sleep(std::chrono::microseconds(number_of(text) % 2000), call.stop());
      if (!slept) co_return rpc::Status(rpc::Code::kCancelled);
    }
    co_return text;
  }
  Task<rpc::Status> items(rpc::Call&, const Items& wish, rpc::Writer<std::string>& out) {
    executed(wish.number);
    for (std::uint32_t i = 0; i < wish.count; ++i) {
      rpc::Status sent = co_await out.write(text_of(i, wish.size));
      if (!sent.ok()) co_return sent;
    }
    co_return rpc::Status();
  }
  Task<rpc::Result<std::uint64_t>> sum(rpc::Call&, rpc::Reader<std::string>& in) {
    std::uint64_t sum = 0;
    for (std::uint32_t next = 0;; ++next) {
      auto item = co_await in.read();
      if (!item) break;
      if (next == 0) executed(number_of(*item));
      if (next != 0 && number_of(*item) != next) fail("an argument came out of order");
      sum += item->size();
    }
    if (!in.status().ok()) co_return in.status();
    co_return sum;
  }
  std::unordered_map<std::uint32_t, unsigned> executions;
};

struct World {
  comm::Context& context;
  Bench& bench;
  std::uint32_t next = 1;
};

void judge(World& world, std::uint32_t number, const rpc::Status& status, bool cut) {
  const unsigned times = world.bench.executions[number];
  if (status.ok() && times != 1)
    fail("call " + std::to_string(number) + " ended well and was executed " + std::to_string(times) +
         " times");
  if (status.refused() && times != 0) fail("a refused call was executed");
  using rpc::Code;
  const Code code = status.code();
  const bool allowed = status.ok() || code == Code::kDeadlineExceeded || code == Code::kCancelled ||
                       (cut && (code == Code::kUnavailable || code == Code::kInternal));
  if (!allowed) fail("call " + std::to_string(number) + ": " + status.what());
}

Task<> one_echo(World& world, rpc::Channel channel, std::uint64_t seed, const bool& cut) {
  Random random(seed);
  const std::uint32_t number = world.next++;
  const std::string text = text_of(number, random.size());
  if (random.chance(15)) {
    // Given up by destroying it, after a while.
    auto answer = co_await comm::when_any(channel.call<&Bench::echo>(text, random.options()),
                                          world.context.sleep(std::chrono::microseconds(random.below(1500))));
    if (answer.index() == 0 && std::get<0>(answer).ok() && *std::get<0>(answer) != text)
      fail("a wrong result");
    co_return;
  }
  auto result = co_await channel.call<&Bench::echo>(text, random.options());
  if (result.ok() && *result != text) fail("a wrong result");
  judge(world, number, result.status(), cut);
}

Task<> one_scan(World& world, rpc::Channel channel, std::uint64_t seed, const bool& cut) {
  Random random(seed);
  const Items wish{world.next++, random.below(200),
                   random.chance(90) ? random.below(2000) : random.below(100000)};
  auto opened = co_await channel.call<&Bench::items>(wish, random.options());
  if (!opened.ok()) {
    judge(world, wish.number, opened.status(), cut);
    co_return;
  }
  auto stream = std::move(*opened);
  const std::uint32_t leave_at = random.chance(20) ? random.below(100) : ~0U;
  for (std::uint32_t next = 0;; ++next) {
    if (next == leave_at) co_return;
    auto item = co_await stream.read(kPatience);
    if (!item) {
      if (stream.status().ok() && next != wish.count) fail("a stream that ended well has a gap");
      break;
    }
    if (*item != text_of(next, wish.size)) fail("an item is wrong or out of order");
    if (random.chance(2))
      static_cast<void>(co_await world.context.sleep(std::chrono::microseconds(random.below(500))));
  }
  judge(world, wish.number, stream.status(), cut);
}

Task<> one_sum(World& world, rpc::Channel channel, std::uint64_t seed, const bool& cut) {
  Random random(seed);
  const std::uint32_t number = world.next++;
  auto opened = co_await channel.call<&Bench::sum>(random.options());
  if (!opened.ok()) {
    judge(world, number, opened.status(), cut);
    co_return;
  }
  auto stream = std::move(*opened);
  const std::uint32_t count = 1 + random.below(200);
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string text = text_of(i == 0 ? number : i, random.below(3000));
    rpc::Status sent = co_await stream.write(text, kPatience);
    if (!sent.ok()) break;
    sum += text.size();
    if (random.chance(1)) co_return;
  }
  auto result = co_await stream.finish(kPatience);
  if (result.ok() && *result != sum) fail("a sum is wrong: items were lost");
  judge(world, number, result.status(), cut);
}

Task<> one_channel(World& world, std::string address, std::uint64_t seed) {
  Random random(seed);
  rpc::ChannelOptions options;
  options.window = 2048 + random.below(100000);
  auto connected = co_await rpc::connect(world.context, address, options, kPatience);
  if (!connected.ok()) fail("connect: " + connected.status().what());
  rpc::Channel channel = std::move(*connected);
  bool cut = false;
  comm::Scope calls;
  for (std::uint32_t i = 5 + random.below(30); i > 0; --i) {
    const std::uint64_t one = seed * 1000 + i;
    switch (random.below(4)) {
      case 0: calls.spawn(one_scan(world, channel, one, cut)); break;
      case 1: calls.spawn(one_sum(world, channel, one, cut)); break;
      default: calls.spawn(one_echo(world, channel, one, cut)); break;
    }
    if (random.chance(30))
      static_cast<void>(co_await world.context.sleep(std::chrono::microseconds(random.below(500))));
  }
  if (random.chance(15)) {
    cut = true;
    channel.close();
  }
  co_await calls.join();
  const bool free = cut || channel.calls() == 0;
  // Those that were given up are answered as well.
  for (int i = 0; !free && i < 2000 && channel.calls() != 0; ++i)
    static_cast<void>(co_await world.context.sleep(5ms));
  if (!cut && channel.calls() != 0) fail("a call that was given up kept its slot");
}

Task<> one_world(World& world, rpc::Server& server, std::uint64_t seed) {
  Random random(seed);
  comm::Scope channels;
  for (std::uint32_t i = 1 + random.below(3); i > 0; --i)
    channels.spawn(one_channel(world, std::string(server.address()), seed * 10 + i));
  co_await channels.join();
  rpc::Status drained = co_await server.drain(kPatience);
  if (!drained.ok()) fail("drain: " + drained.what());
}

void run_seed(std::uint64_t seed) {
  current_seed = seed;
  static comm::Context context = comm::Context::open().value_or_throw();
  {
    Bench bench;
    Random random(seed);
    rpc::ServerOptions options;
    options.window = 2048 + random.below(100000);
    options.max_calls = static_cast<std::uint16_t>(random.chance(20) ? 1 + random.below(4) : 1024);
    rpc::Server server(context, options);
    server.add<&Bench::echo>(bench);
    server.add<&Bench::items>(bench);
    server.add<&Bench::sum>(bench);
    std::string host = context.device().addresses.at(0);
    for (const std::string& address : context.device().addresses)
      if (address.find(':') == std::string::npos) host = address;
    const rpc::Status listening = server.listen(host + ":0");
    if (!listening.ok()) fail(listening.what());
    World world{context, bench};
    context.run(one_world(world, server, seed));
    if (server.calls() != 0 || server.counters().broken != 0)
      fail("a handler still runs, or an end broke the protocol");
  }
  if (!context.run_until([] { return context.endpoints() == 0; }, comm::Clock::now() + kPatience))
    fail("an endpoint is left");
  if (context.pool().in_use() != 0)
    fail(std::to_string(context.pool().in_use()) + " octets did not come back");
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return std::fprintf(stderr, "usage: swarm FIRST COUNT\n"), 2;
  const std::uint64_t first = std::strtoull(words[1], nullptr, 10);
  const std::uint64_t seeds = std::strtoull(words[2], nullptr, 10);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) run_seed(seed);
  std::printf("%llu seeds\n", static_cast<unsigned long long>(seeds));
}
