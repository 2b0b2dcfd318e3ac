// Offers: memory of this end that the peer READs. Small pieces come from an arena: a pool of the connection
// that is registered once. Registering each piece costs more than the transfer of some hundred KiB, because a
// device may have to map the memory for the peer, and again to unmap it. The peer can read the whole arena,
// which holds nothing but what this end has sent to it. Large pieces come from the context's pool, and each
// is opened alone.
//
// On an encrypted connection, the peer gets an encrypted copy. The original never lies in memory that a peer
// can read.
//
// The argument of a call stays open until the reply. Results and stream items stay open until the peer says
// that it has taken them, even if their call is over. If a peer takes too few of them, the others travel in
// frames.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lib/rpc/connection_memory.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/sealing.h"
#include "rrdma/comm/comm.h"
#include "rrdma/comm/ref.h"
#include "rrdma/rpc/flow.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// Memory that the peer may read as long as this object exists.
class Offer {
 public:
  Offer() = default;
  Offer(comm::Buffer memory, comm::Share<std::byte> share, const Region& region)
      : memory_(std::move(memory)), share_(std::move(share)), region_(region) {}
  Offer(Offer&&) noexcept = default;
  Offer& operator=(Offer&& other) noexcept {
    revoke();
    memory_ = std::move(other.memory_);
    share_ = std::move(other.share_);
    region_ = other.region_;
    return *this;
  }
  explicit operator bool() const { return static_cast<bool>(memory_); }
  [[nodiscard]] const Region& region() const { return region_; }
  // The bytes of memory that it takes.
  [[nodiscard]] std::size_t capacity() const { return memory_.capacity(); }
  void revoke() {
    share_.revoke();
    memory_ = comm::Buffer();
  }

 private:
  comm::Buffer memory_;
  comm::Share<std::byte> share_;  // empty for memory of the arena; destroyed before the memory
  Region region_;
};

class Offers {
 public:
  // Results and items below this size travel faster in frames.
  static constexpr std::size_t kLeast = 16 << 10;
  // Larger pieces than this are opened one by one: they lie in huge pages, which no device maps for a peer.
  static constexpr std::size_t kLargestShared = 256 << 10;

  // `transfers`: counts what is lent; outlives this object.
  Offers(comm::Context& context, Transfers& transfers) : context_(&context), transfers_(&transfers) {}

  // Encrypts everything offered from now on.
  void encrypt(const Key& key) { key_.emplace(key); }

  // Memory that open() accepts.
  comm::Result<comm::Buffer> take(std::size_t size);
  // The contents of `memory`, if that is cheaper to open than a copy of it.
  comm::Result<comm::Buffer> take_copy(comm::Buffer memory);
  // Opens memory to the peer.
  comm::Result<Offer> open(comm::Buffer memory);

  // Opens memory until the peer has taken it. `stream`: the stream that it is an item of, if any.
  comm::Result<Region> lend(comm::Buffer memory, const comm::detail::Ref<Outbound>& stream = {});
  // The peer has taken the memory that begins here. Returns false if none is lent.
  bool taken(std::uint64_t address);
  // Whether to offer a result of this size, instead of sending it in frames.
  [[nodiscard]] bool has_room(std::size_t size) const {
    return lent_.empty() || octets_ + size <= std::min(kLentLimit, transfers_->limit());
  }
  // The same for a stream's item. Its reader may be slow, so items leave half of the memory to results.
  [[nodiscard]] bool has_room_for_item(std::size_t size) const {
    return lent_.empty() || octets_ + size <= std::min(kLentLimit, transfers_->limit() / 2);
  }
  // Whether nothing is lent.
  [[nodiscard]] bool empty() const { return lent_.empty(); }

 private:
  // Memory that the peer may read once it is open.
  comm::Result<comm::Buffer> take_open(std::size_t size);
  // Encrypts `memory` into memory that the peer may read.
  comm::Result<comm::Buffer> sealed(const comm::Buffer& memory);
  static constexpr std::size_t kArenaLimit = 16 << 20;
  static constexpr std::size_t kLentLimit = 64 << 20;
  struct Lent {
    Offer offer;
    comm::detail::Ref<Outbound> stream;
  };
  comm::Context* context_;
  Transfers* transfers_;
  std::optional<comm::Pool> arena_;
  std::unordered_map<std::uint64_t, Lent> lent_;  // by address
  std::size_t octets_ = 0;                        // in lent_
  std::optional<SealKey> key_;
  std::uint64_t seals_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
