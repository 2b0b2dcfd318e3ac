// A swarm: random operations, cancellations, deadlines, closes, aborts and kills on a few connections,
// checked by an oracle. `swarm FIRST COUNT [N]` runs that many seeds, every N-th with a kill. A failure
// prints its seed.
//
// The oracle: a sender numbers its messages and fills them with a pattern of the number. A receiver sees
// increasing numbers. A successfully sent number is missing only if its connection was aborted. Every byte is
// right. After everything is closed, all memory is back in the pool. swarm_kills.h describes the invariants
// of a kill.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/libraries/comm/swarm.h"
#include "tests/libraries/comm/swarm_kills.h"

using namespace comm_swarm;

namespace {

// A kill needs a process that opens the device, and time until all survivors notice. One seed in this many
// has one.
std::uint64_t seeds_for_a_kill = 10;
std::uint64_t kills = 0;
Clock::duration longest_until_all_knew{};

struct Way {
  std::uint64_t seed;
  bool aborted = false;
  std::uint32_t confirmed = 0;  // the last number that was sent successfully
  std::uint32_t seen = 0;       // the last number that was received
};

Task<> send_numbers(Context& context, Endpoint& end, Way& way, std::uint64_t seed) {
  Random random(seed);
  const std::uint32_t count = random.below(60);
  for (std::uint32_t number = 1; number <= count; ++number) {
    auto buffer = context.pool().take(any_size(random));
    if (!buffer) fail(seed, "no memory");
    fill(buffer->bytes(), number);
    bool good = false;
    if (random.chance(50)) {
      good = (co_await end.send(std::move(*buffer), any_limit(random))).ok();
    } else if (random.chance(30)) {
      // Give up by destruction after a while.
      auto answer = co_await when_any(end.send(std::move(*buffer), kFar),
                                      context.sleep(std::chrono::microseconds(random.below(500))));
      good = answer.index() == 0 && std::get<0>(answer).ok();
    } else {
      good = (co_await end.send(std::span<const std::byte>(buffer->bytes()), any_limit(random))).ok();
    }
    if (good) way.confirmed = number;
    if (random.chance(5))
      static_cast<void>(co_await context.sleep(std::chrono::microseconds(random.below(300))));
  }
  if (random.chance(20)) {
    way.aborted = true;
    end.abort();
  } else if (random.chance(50)) {
    auto closed = co_await end.close(kFar);
    if (!closed && closed.error().code() != Code::kPeerGone && closed.error().code() != Code::kClosed)
      fail(seed, closed.error().what());
  }
  // Otherwise the handle's destructor closes it.
}

Task<> receive_numbers(Context& context, Endpoint& end, Way& way, std::uint64_t seed) {
  Random random(seed);
  std::vector<Message> loans;
  for (;;) {
    Result<Message> message = Error();
    if (random.chance(80)) {
      message = co_await end.receive(any_limit(random));
    } else {
      auto answer =
          co_await when_any(end.receive(kFar), context.sleep(std::chrono::microseconds(random.below(500))));
      if (answer.index() == 1) continue;
      message = std::move(std::get<0>(answer));
    }
    if (!message) {
      const Code code = message.error().code();
      if (code == Code::kDeadline) continue;
      if (code != Code::kClosedByPeer && code != Code::kPeerGone && code != Code::kClosed)
        fail(seed, message.error().what());
      co_return;
    }
    const auto number = message->as<std::uint32_t>();
    if (number <= way.seen)
      fail(seed, "a message came twice or out of order: " + std::to_string(number) + " after " +
                     std::to_string(way.seen));
    if (!sound(message->bytes(), number)) fail(seed, "a message was damaged");
    way.seen = number;
    if (random.chance(30) && loans.size() < 2) {
      loans.push_back(std::move(*message));
    } else if (random.chance(30)) {
      loans.clear();
    }
  }
}

Task<> one_sided(Context& context, Endpoint& end, RemoteSpan<std::byte> memory, RemoteRef<std::uint64_t> word,
                 std::uint64_t seed) {
  Random random(seed);
  for (std::uint32_t i = random.below(20); i > 0; --i) {
    auto buffer = context.pool().take(1 + random.below(8000));
    if (!buffer) fail(seed, "no memory");
    const Limit limit = any_limit(random);
    switch (random.below(4)) {
      case 0: static_cast<void>(co_await end.write(std::move(*buffer), memory, limit)); break;
      case 1:
        static_cast<void>(co_await end.read(memory.first(buffer->size()), std::move(*buffer), limit));
        break;
      case 2: static_cast<void>(co_await end.fetch_add(word, 1, limit)); break;
      default: static_cast<void>(co_await end.flush(limit)); break;
    }
  }
}

Task<> connection(Context& context, Endpoint client, Endpoint server, RemoteSpan<std::byte> memory,
                  RemoteRef<std::uint64_t> word, std::uint64_t seed) {
  Way way{.seed = seed};
  co_await when_all(
      [](Context& c, Endpoint given, Way& w, RemoteSpan<std::byte> m, RemoteRef<std::uint64_t> r,
         std::uint64_t s) -> Task<> {
        // A parameter lives as long as the task. A local variable ends with the body, and thus closes the
        // connection.
        Endpoint end = std::move(given);
        if (s % 3 == 0) {
          co_await when_all(send_numbers(c, end, w, s), one_sided(c, end, m, r, s + 1));
        } else {
          co_await send_numbers(c, end, w, s);
        }
      }(context, std::move(client), way, memory, word, seed),
      receive_numbers(context, server, way, seed + 2));
  if (!way.aborted && way.seen < way.confirmed) {
    fail(seed, "lost: " + std::to_string(way.confirmed) + " was sent, " + std::to_string(way.seen) +
                   " was the last to arrive");
  }
}

// An unrelated connection: while another peer dies, every message arrives in order.
Task<> go_on(Context& context, Endpoint near, Endpoint far, const bool& over, std::uint64_t seed) {
  for (std::uint32_t number = 1; !over || number < 10; ++number) {
    auto [sent, message] = co_await when_all(near.send(number, kFar), far.receive(kFar));
    if (!sent || !message)
      fail(seed, "while another peer died: " + (sent ? message.error() : sent.error()).what());
    if (message->as<std::uint32_t>() != number) fail(seed, "while another peer died, a message was lost");
    static_cast<void>(co_await context.sleep(100us));
  }
}

Task<> kill_beside(Context& context, Endpoint near, Endpoint far, std::uint64_t seed) {
  bool over = false;
  const auto kill = [&]() -> Task<> {
    longest_until_all_knew = std::max(longest_until_all_knew, co_await kill_a_peer(context, seed));
    ++kills;
    over = true;
  };
  co_await when_all(kill(), go_on(context, std::move(near), std::move(far), over, seed));
}

Task<> run_connections(Context& context, Listener& listener, std::string where, RemoteSpan<std::byte> memory,
                       RemoteRef<std::uint64_t> word, std::uint64_t seed) {
  // Connect one after the other, so that both ends belong to the same pair; then run them concurrently.
  Scope scope;
  const std::uint64_t peaceful = 1 + seed % 3;
  for (std::uint64_t i = 0; i < peaceful + (seed % seeds_for_a_kill == 0 ? 1 : 0); ++i) {
    const std::uint64_t own = seed * 100 + i;
    auto [near, far] = co_await when_all(context.connect(where, any_profile(own), kFar),
                                         listener.accept(any_profile(own + 1), kFar));
    if (!near || !far) fail(own, near ? far.error().what() : near.error().what());
    if (i < peaceful) {
      scope.spawn(connection(context, std::move(*near), std::move(*far), memory, word, own));
    } else {
      scope.spawn(kill_beside(context, std::move(*near), std::move(*far), seed));
    }
  }
  co_await scope.join();
}

void run_seed(std::uint64_t seed) {
  ContextOptions options;
  options.linger = 10s;
  Context context = Context::open(options).value_or_throw();
  Listener listener = context.listen(address_of(context) + ":0").value_or_throw();
  Buffer target = context.pool().take(10000).value_or_throw();
  alignas(8) std::uint64_t word[1] = {0};
  auto memory = share(context, target, Access::kRead | Access::kWrite).value_or_throw();
  auto counter =
      share(context, std::span<std::uint64_t>(word), Access::kAtomic | Access::kRead | Access::kWrite)
          .value_or_throw();
  const std::size_t before = context.pool().in_use();
  const auto first = context.run(when_any(run_connections(context, listener, std::string(listener.address()),
                                                          memory.remote(), counter.remote()[0], seed),
                                          seeds::time_to_run(context, 2 * seeds::kPatience)));
  if (first.index() == 1) fail(seed, "it does not end");
  const auto alone = [&] { return context.endpoints() <= 1; };
  if (!seeds::run_until(context, alone)) fail(seed, "an endpoint does not go");
  if (context.pool().in_use() != before)
    fail(seed, "memory was lost: " + std::to_string(context.pool().in_use() - before) + " octets");
}

}  // namespace

int main(int count, char** words) {
  if (count > 1 && std::string_view(words[1]) == "victim") return be_killed(count, words);
  const std::uint64_t first = count > 1 ? std::strtoull(words[1], nullptr, 10) : 1;
  const std::uint64_t seeds = count > 2 ? std::strtoull(words[2], nullptr, 10) : 100;
  if (count > 3) seeds_for_a_kill = std::strtoull(words[3], nullptr, 10);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) run_seed(seed);
  std::printf("%llu seeds from %llu: good; %llu kills, of which all knew after %.3f s at most\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(kills),
              std::chrono::duration<double>(longest_until_all_knew).count());
}
