// The library between two programs that may use different devices. `across serve ADDRESS` accepts any client.
// `across talk ADDRESS` runs every operation with it, checks every byte at both ends, and then stops the
// server.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/comm.h"
#include "tests/libraries/comm/patience.h"

using namespace rrdma::comm;
using namespace std::chrono_literals;

namespace {

const std::chrono::seconds kPatience = comm_test::patience(20);
constexpr std::size_t kMemory = 300'000;
constexpr std::array<std::size_t, 10> kSizes = {0, 1, 8, 60, 200, 1016, 1017, 4000, 4095, 4096};

// The memory that the server opens to a client.
struct Offer {
  RemoteSpan<std::byte> memory;
  RemoteSpan<std::uint64_t> words;
  RemoteSpan<const std::uint64_t> window;  // empty if its device has no windows
};

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

std::byte octet(std::size_t seed, std::size_t i) {
  return static_cast<std::byte>(seed * 31 + i * 7 + i / 251);
}
void fill(std::span<std::byte> octets, std::size_t seed) {
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = octet(seed, i);
}
bool holds(std::span<const std::byte> octets, std::size_t seed) {
  for (std::size_t i = 0; i < octets.size(); ++i)
    if (octets[i] != octet(seed, i)) return false;
  return true;
}

// Sends every message back with each byte changed, until the peer closes. An immediate value reports that the
// memory was written.
Task<> answer(Endpoint& end, std::span<const std::byte> memory) {
  for (;;) {
    auto message = co_await end.receive(kPatience);
    if (!message) {
      require(message.error().code() == Code::kClosedByPeer, message.error().what().c_str());
      co_return;
    }
    if (const auto number = message->immediate()) {
      const bool whole = holds(memory, *number);
      (co_await end.send(whole ? "whole" : "torn", kPatience)).value_or_throw();
      continue;
    }
    for (std::byte& one : message->bytes()) one ^= std::byte{0xff};
    (co_await end.send(message->bytes(), kPatience)).value_or_throw();
  }
}

Task<> serve(Context& context, const char* address) {
  Buffer memory = context.pool().take(kMemory).value_or_throw();
  fill(memory.bytes(), 1);
  alignas(8) std::array<std::uint64_t, 2> words = {5, 0};
  std::vector<std::uint64_t> rows(1000, 77);
  auto opened = share(context, memory, Access::kRead | Access::kWrite).value_or_throw();
  auto counters =
      share(context, std::span<std::uint64_t>(words), Access::kAtomic | Access::kRead | Access::kWrite)
          .value_or_throw();
  Listener listener = context.listen(address).value_or_throw();
  std::printf("listening at %s\n", std::string(listener.address()).c_str());
  std::fflush(stdout);
  (co_await listener.next()).value_or_throw().refuse(42, "not you");
  Endpoint end = (co_await listener.accept(kPatience)).value_or_throw();
  Offer offer{opened.remote(), counters.remote(), {}};
  Window<std::uint64_t> window;
  if (context.device().memory_windows) {
    window = (co_await end.lend(std::span(rows), Access::kRead, kPatience)).value_or_throw();
    offer.window = window.remote();
  }
  (co_await end.send(offer, kPatience)).value_or_throw();
  co_await answer(end, memory.bytes());
  require(words[0] == 5 + 100 && words[1] == 9, "the atomics did not come to what they should");
  // A peer that leaves without a close.
  Endpoint brief = (co_await listener.accept(kPatience)).value_or_throw();
  auto last = co_await brief.receive(kPatience);
  require(!last && last.error().code() == Code::kPeerGone && last.error().peer() == brief.peer(),
          "nobody knows that it went");
}

Task<> exchange_messages(Context& context, Endpoint& end) {
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : kSizes) {
      Buffer buffer = context.pool().take(size).value_or_throw();
      fill(buffer.bytes(), size);
      auto [sent, back] = co_await when_all(end.send(std::move(buffer), kPatience), end.receive(kPatience));
      std::move(sent).value_or_throw();
      Message message = std::move(back).value_or_throw();
      require(message.size() == size, "a message of another size came back");
      for (std::byte& one : message.bytes()) one ^= std::byte{0xff};
      require(holds(message.bytes(), size), "a message came back torn");
    }
  }
  // Many at a time, in order.
  constexpr std::uint32_t kMany = 300;
  const auto sender = [](Endpoint& to) -> Task<> {
    for (std::uint32_t i = 0; i < kMany; ++i) (co_await to.send(i, kPatience)).value_or_throw();
  };
  Scope scope;
  scope.spawn(sender(end));
  for (std::uint32_t i = 0; i < kMany; ++i)
    require((co_await end.receive(kPatience)).value_or_throw().as<std::uint32_t>() == ~i, "out of order");
  co_await scope.join();
}

Task<> reach_into_memory(Context& context, Endpoint& end, const Offer& offer) {
  Buffer all = context.pool().take(kMemory).value_or_throw();
  all = (co_await end.read(offer.memory, std::move(all), kPatience)).value_or_throw();
  require(holds(all.bytes(), 1), "READ: torn");
  fill(all.bytes(), 2);
  all = (co_await end.write(std::move(all), offer.memory, kPatience)).value_or_throw();
  all = (co_await end.read(offer.memory, std::move(all), kPatience)).value_or_throw();
  require(holds(all.bytes(), 2), "WRITE: torn");
  fill(all.bytes(), 3);
  all = (co_await end.write(std::move(all), offer.memory, 3U, kPatience)).value_or_throw();
  require((co_await end.receive(kPatience)).value_or_throw().text() == "whole", "WRITE with immediate: torn");
  for (std::uint64_t i = 0; i < 100; ++i)
    require((co_await end.fetch_add(offer.words[0], 1, kPatience)).value_or_throw() == 5 + i, "fetch_add");
  require((co_await end.compare_swap(offer.words[1], 0, 4, kPatience)).value_or_throw() == 0, "compare_swap");
  require((co_await end.compare_swap(offer.words[1], 0, 5, kPatience)).value_or_throw() == 4,
          "compare_swap of another");
  auto [written, swapped, added] = co_await batch(end.write(std::move(all), offer.memory, kPatience),
                                                  end.compare_swap(offer.words[1], 4, 8, kPatience),
                                                  end.fetch_add(offer.words[1], 1, kPatience).fenced());
  std::move(written).value_or_throw();
  require(std::move(swapped).value_or_throw() == 4 && std::move(added).value_or_throw() == 8,
          "a batch out of order");
  (co_await end.flush(kPatience)).value_or_throw();
  if (offer.window.empty()) co_return;
  Buffer rows = context.pool().take(offer.window.size_bytes()).value_or_throw();
  rows = (co_await end.read(offer.window, std::move(rows), kPatience)).value_or_throw();
  for (const std::uint64_t row : rows.as<std::uint64_t>()) require(row == 77, "a window: torn");
}

Task<> talk(Context& context, const char* address) {
  auto refused = co_await context.connect(address, kPatience);
  require(!refused && refused.error().code() == Code::kRefused && refused.error().detail() == 42,
          "not refused with the reason");
  Endpoint end = (co_await context.connect(address, kPatience)).value_or_throw();
  const auto offer = (co_await end.receive(kPatience)).value_or_throw().as<Offer>();
  co_await exchange_messages(context, end);
  co_await reach_into_memory(context, end, offer);
  auto late = co_await end.receive(100ms);
  require(!late && late.error().code() == Code::kDeadline, "no deadline");
  (co_await end.close(kPatience)).value_or_throw();
  Endpoint brief = (co_await context.connect(address, kPatience)).value_or_throw();
  brief.abort();
  std::printf("good%s\n", offer.window.empty() ? ", without memory windows" : "");
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count == 3 ? words[1] : "";
  if (role != "serve" && role != "talk") return std::fprintf(stderr, "usage: across serve|talk ADDRESS\n"), 2;
  Context context = Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2]) : talk(context, words[2]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
