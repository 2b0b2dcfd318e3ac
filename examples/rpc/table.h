// Table: pairs of short texts in memory that clients read without a call. A slot has its version before and
// after its contents. The server is the only writer. It makes the first version odd, changes the contents,
// and then makes both versions equal and even. A reader that sees two equal even versions has read a
// consistent state; otherwise it reads again. If several keys map to a slot, it holds the last one stored.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/comm.h"

namespace table {

struct Slot {
  std::uint64_t version;
  std::array<char, 48> key;
  std::array<char, 192> value;
  std::uint64_t version_again;
};

inline std::size_t place_of(std::string_view key, std::size_t slots) {
  std::uint64_t hash = 1469598103934665603ULL;  // the same at both ends, unlike std::hash
  for (const char letter : key) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return hash % slots;
}

// The server's side.
class Table {
 public:
  explicit Table(rrdma::comm::Context& context)
      : slots_(1024),
        share_(rrdma::comm::share(context, std::span<Slot>(slots_), rrdma::comm::Access::kRead)
                   .value_or_throw()) {}
  [[nodiscard]] rrdma::comm::RemoteSpan<const Slot> remote() const { return share_.remote(); }

  // A pair that is too long empties the slot, so that readers must call.
  void store(std::string_view key, std::string_view value) {
    Slot& slot = slots_[place_of(key, slots_.size())];
    const bool fits = key.size() < slot.key.size() && value.size() < slot.value.size();
    const std::atomic_ref version(slot.version);
    const std::uint64_t before = version.load();
    version.store(before + 1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    slot.key = {};
    slot.value = {};
    if (fits) {
      std::memcpy(slot.key.data(), key.data(), key.size());
      std::memcpy(slot.value.data(), value.data(), value.size());
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic_ref(slot.version_again).store(before + 2);
    version.store(before + 2);
  }

 private:
  std::vector<Slot> slots_;
  rrdma::comm::Share<Slot> share_;
};

// The reader's side. Returns the value if the slot of this key holds it.
inline rrdma::comm::Task<std::optional<std::string>> look(rrdma::comm::Endpoint& end,
                                                          rrdma::comm::RemoteSpan<const Slot> table,
                                                          std::string key) {
  for (;;) {
    auto read = co_await end.read(table[place_of(key, table.size())], std::chrono::seconds(1));
    const Slot slot = std::move(read).value_or_throw();
    if (slot.version != slot.version_again || slot.version % 2 != 0) continue;
    if (key.empty() || key.size() >= slot.key.size() || std::string_view(slot.key.data()) != key)
      co_return std::nullopt;
    co_return std::string(slot.value.data());
  }
}

}  // namespace table
