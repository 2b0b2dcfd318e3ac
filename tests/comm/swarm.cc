// A swarm: random operations, cancellations, deadlines, closes and aborts on a few connections, with an oracle. `swarm FIRST COUNT` runs
// that many seeds. A failure prints its seed.
//
// The oracle: a sender numbers its messages and fills them with a pattern of that number. A receiver sees numbers that only grow; a number
// whose send was good is missing only if its connection was aborted; every octet is right; when everything is closed, all memory has
// come back to the pool.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 20s;

[[noreturn]] void fail(std::uint64_t seed, const std::string& what) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

struct Way {
  std::uint64_t seed;
  bool aborted = false;
  std::uint32_t confirmed = 0;  // the last number whose send was good
  std::uint32_t seen = 0;       // the last number that was received
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

void fill(std::span<std::byte> octets, std::uint32_t number) {
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::byte>(number * 31 + i * 7);
  if (octets.size() >= 4) std::memcpy(octets.data(), &number, 4);
}
bool sound(std::span<const std::byte> octets, std::uint32_t number) {
  for (std::size_t i = 4; i < octets.size(); ++i) {
    if (octets[i] != static_cast<std::byte>(number * 31 + i * 7)) return false;
  }
  return true;
}

Limit any_limit(Random& random) {
  if (random.chance(70)) return Limit(kPatience);
  return Limit(std::chrono::microseconds(random.below(3000)));
}

Task<> send_numbers(Context& context, Endpoint& end, Way& way, std::uint64_t seed) {
  Random random(seed);
  const std::uint32_t count = random.below(60);
  for (std::uint32_t number = 1; number <= count; ++number) {
    const std::size_t size = 4 + random.below(random.chance(50) ? 100 : 2000);
    auto buffer = context.pool().take(size);
    if (!buffer) fail(seed, "no memory");
    fill(buffer->bytes(), number);
    bool good = false;
    if (random.chance(50)) {
      good = (co_await end.send(std::move(*buffer), any_limit(random))).ok();
    } else if (random.chance(30)) {
      // Given up by destroying it, after a while.
      auto answer = co_await when_any(end.send(std::move(*buffer), kPatience),
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
    auto closed = co_await end.close(kPatience);
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
      auto answer = co_await when_any(end.receive(kPatience),
                                      context.sleep(std::chrono::microseconds(random.below(500))));
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

Profile any_profile(std::uint64_t seed) {
  Random random(seed);
  Profile profile;
  profile.message_limit = 2100;
  profile.receive_depth = static_cast<std::uint16_t>(4 + random.below(12));
  profile.send_depth = static_cast<std::uint16_t>(4 + random.below(12));
  return profile;
}

Task<> connection(Context& context, Endpoint client, Endpoint server, RemoteSpan<std::byte> memory,
                  RemoteRef<std::uint64_t> word, std::uint64_t seed) {
  Way way{.seed = seed};
  co_await when_all(
      [](Context& c, Endpoint given, Way& w, RemoteSpan<std::byte> m, RemoteRef<std::uint64_t> r,
         std::uint64_t s) -> Task<> {
        // A parameter lives as long as the task; a local one ends with its body, and so closes the connection.
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

void run_seed(std::uint64_t seed) {
  ContextOptions options;
  options.linger = 10s;
  Context context = Context::open(options).value_or_throw();
  std::string host;
  for (const std::string& address : context.device().addresses) {
    if (host.empty() && address.find(':') == std::string::npos) host = address;
  }
  Listener listener = context.listen(host + ":0").value_or_throw();
  const std::string address = host + ":" + std::to_string(listener.port());
  Buffer target = context.pool().take(10000).value_or_throw();
  alignas(8) std::uint64_t word[1] = {0};
  auto memory = share(context, target, Access::kRead | Access::kWrite).value_or_throw();
  auto counter =
      share(context, std::span<std::uint64_t>(word), Access::kAtomic | Access::kRead | Access::kWrite)
          .value_or_throw();
  const std::size_t before = context.pool().in_use();
  context.run([](Context& c, Listener& l, std::string where, RemoteSpan<std::byte> m,
                 RemoteRef<std::uint64_t> r, std::uint64_t s) -> Task<> {
    // One after the other connects, so that both ends are of the same pair; then they live beside each other.
    Scope scope;
    for (std::uint64_t i = 0; i < 1 + s % 3; ++i) {
      const std::uint64_t own = s * 100 + i;
      auto [near, far] = co_await when_all(c.connect(where, any_profile(own), kPatience),
                                           l.accept(any_profile(own + 1), kPatience));
      if (!near || !far) fail(own, near ? far.error().what() : near.error().what());
      scope.spawn(connection(c, std::move(*near), std::move(*far), m, r, own));
    }
    co_await scope.join();
  }(context, listener, address, memory.remote(), counter.remote()[0], seed));
  if (!context.run_until([&] { return context.endpoints() <= 1; }, Clock::now() + kPatience))
    fail(seed, "an endpoint does not go");
  if (context.pool().in_use() != before)
    fail(seed, "memory was lost: " + std::to_string(context.pool().in_use() - before) + " octets");
}

}  // namespace

int main(int count, char** words) {
  const std::uint64_t first = count > 1 ? std::strtoull(words[1], nullptr, 10) : 1;
  const std::uint64_t seeds = count > 2 ? std::strtoull(words[2], nullptr, 10) : 100;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) run_seed(seed);
  std::printf("%llu seeds from %llu: good\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(first));
}
