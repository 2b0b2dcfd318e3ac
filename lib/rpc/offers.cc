#include "lib/rpc/offers.h"

#include <cstring>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

comm::Result<comm::Buffer> Offers::take(std::size_t size) {
  return key_ ? context_->pool().take(size) : take_open(size);
}

comm::Result<comm::Buffer> Offers::take_open(std::size_t size) {
  if (size <= kLargestShared) {
    if (!arena_) {
      auto created = comm::Pool::create(*context_, {.limit = kArenaLimit, .remote = comm::Access::kRead});
      if (!created) return created.error();
      arena_.emplace(std::move(*created));
    }
    auto memory = arena_->take(size);
    if (memory) return memory;
  }
  return context_->pool().take(size);
}

comm::Result<comm::Buffer> Offers::take_copy(comm::Buffer memory) {
  if (key_ || memory.size() > kLargestShared || (arena_ && arena_->owns(memory))) return memory;
  auto copy = take(memory.size());
  if (copy) std::memcpy(copy->data(), memory.data(), memory.size());
  return copy;
}

comm::Result<comm::Buffer> Offers::sealed(const comm::Buffer& memory) {
  auto into = take_open(memory.size() + kSealTag);
  if (into) key_->seal(seals_, {}, memory.bytes(), into->data());
  return into;
}

comm::Result<Offer> Offers::open(comm::Buffer memory) {
  std::uint64_t seal = 0;
  if (key_) {
    auto encrypted = sealed(memory);
    if (!encrypted) return encrypted.error();
    memory = std::move(*encrypted);
    seal = seals_++;
  }
  const auto region_of = [seal](const comm::RemoteSpan<std::byte>& remote) {
    return Region{remote.address(), remote.key(), static_cast<std::uint32_t>(remote.size()), seal};
  };
  // Peers can already read the arena and wrapped memory.
  if ((arena_ && arena_->owns(memory)) || comm::Pool::wrapped(memory)) {
    const Region region = region_of(memory.remote());
    return Offer(std::move(memory), {}, region);
  }
  auto opened = comm::share(*context_, memory, comm::Access::kRead);
  if (!opened) return opened.error();
  const Region region = region_of(opened->remote());
  return Offer(std::move(memory), std::move(*opened), region);
}

comm::Result<Region> Offers::lend(comm::Buffer memory, const comm::detail::Ref<Outbound>& stream) {
  auto opened = open(std::move(memory));
  if (!opened) return opened.error();
  const Region region = opened->region();
  octets_ += opened->capacity();
  transfers_->add(opened->capacity());
  lent_.insert_or_assign(region.address, Lent{std::move(*opened), stream});
  return region;
}

bool Offers::taken(std::uint64_t address) {
  const auto found = lent_.find(address);
  if (found == lent_.end()) return false;
  const Lent lent = std::move(found->second);
  lent_.erase(found);
  octets_ -= lent.offer.capacity();
  transfers_->remove(lent.offer.capacity());
  if (lent.stream) lent.stream->returned(lent.offer.region().length);
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
