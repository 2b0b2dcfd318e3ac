// A key-value store whose GET never involves the server: the client reads the slot itself (RDMA READ).
// `key_value serve ADDRESS` serves; `key_value put ADDRESS KEY VALUE` and `key_value get ADDRESS KEY` are
// clients.
//
// A slot has its version before and after its contents. The server is the only writer. It makes the first
// version odd, changes the contents, and then makes both versions equal and even. A reader that sees two
// equal even versions has read a consistent state; otherwise it reads again.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

namespace {

constexpr std::size_t kSlots = 1024;

struct Slot {
  std::uint64_t version;
  std::array<char, 48> key;
  std::array<char, 192> value;
  std::uint64_t version_again;
};
struct Put {
  std::array<char, 48> key;
  std::array<char, 192> value;
};

std::size_t place_of(std::string_view key) {
  std::uint64_t hash = 1469598103934665603ULL;  // the same at both ends, unlike std::hash
  for (const char letter : key) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return hash % kSlots;
}

template <std::size_t N>
std::array<char, N> field(std::string_view text) {
  if (text.size() >= N) throw std::runtime_error("at most " + std::to_string(N - 1) + " letters");
  std::array<char, N> result{};
  std::memcpy(result.data(), text.data(), text.size());
  return result;
}

void store(Slot& slot, const Put& put) {
  const std::atomic_ref version(slot.version);
  const std::uint64_t before = version.load();
  version.store(before + 1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  slot.key = put.key;
  slot.value = put.value;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::atomic_ref(slot.version_again).store(before + 2);
  version.store(before + 2);
}

Task<> serve_one(Endpoint end, RemoteSpan<const Slot> table, std::vector<Slot>& slots) {
  if (!co_await end.send(table)) co_return;
  for (;;) {
    auto message = co_await end.receive();
    if (!message) co_return;
    if (message->size() != sizeof(Put)) co_return;
    const Put put = message->as<Put>();
    store(slots[place_of(put.key.data())], put);
    if (!co_await end.send("stored")) co_return;
  }
}

Task<> serve(Context& context, const char* address) {
  std::vector<Slot> slots(kSlots);
  auto opened = share(context, std::span<Slot>(slots), Access::kRead).value_or_throw();
  Listener listener = context.listen(address).value_or_throw();
  std::printf("listening at %s\n", std::string(listener.address()).c_str());
  std::fflush(stdout);
  Scope peers;
  for (;;) peers.spawn(serve_one((co_await listener.accept()).value_or_throw(), opened.remote(), slots));
}

Task<> put(Endpoint& end, std::string_view key, std::string_view value) {
  const Put request{field<48>(key), field<192>(value)};
  (co_await end.send(request)).value_or_throw();
  static_cast<void>((co_await end.receive()).value_or_throw());
}

Task<std::string> get(Endpoint& end, RemoteSpan<const Slot> table, std::string_view key) {
  for (;;) {
    const Slot slot = (co_await end.read(table[place_of(key)])).value_or_throw();
    if (slot.version != slot.version_again || slot.version % 2 != 0) continue;
    co_return std::string_view(slot.key.data()) == key ? std::string(slot.value.data()) : std::string();
  }
}

Task<> ask(Context& context, std::string_view role, const char* address, const char* key, const char* value) {
  Endpoint end = (co_await context.connect(address, std::chrono::seconds(5))).value_or_throw();
  const auto table = (co_await end.receive()).value_or_throw().as<RemoteSpan<const Slot>>();
  if (role == "put") {
    co_await put(end, key, value);
  } else {
    std::printf("%s\n", (co_await get(end, table, key)).c_str());
  }
  (co_await end.close()).value_or_throw();
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  const bool good =
      (role == "serve" && count == 3) || (role == "put" && count == 5) || (role == "get" && count == 4);
  if (!good)
    return std::fprintf(stderr, "usage: key_value serve ADDRESS | put ADDRESS KEY VALUE | get ADDRESS KEY\n"),
           2;
  Context context = Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2])
                              : ask(context, role, words[2], words[3], count > 4 ? words[4] : ""));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
