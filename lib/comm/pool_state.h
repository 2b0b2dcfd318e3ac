// PoolState: slabs of registered memory and the free pieces of each size. A slab is mapped from a memfd, or for large pieces from huge
// pages, registered as one region, and cut from its front; a piece that was cut once keeps its size class for good. Sizes
// up to 64 KiB are powers of two, larger ones are whole pages, so that equal requests find one another's pieces.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "rrdma/comm/buffer.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class Reactor;

// In front of each piece: room for the header of a message.
inline constexpr std::size_t kHeadroom = 64;

// What memory is made of. A huge page is there as a whole once an octet of it was touched.
enum class Pages : std::uint8_t { kOrdinary, kHuge };

// A mapping, registered.
class Slab {
 public:
  static Result<std::unique_ptr<Slab>> map(ibv_pd* domain, std::size_t size, int access, Pages pages);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const ibv_mr& region() const { return *region_; }

 private:
  Slab(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  std::size_t size_;
  ibv_mr* region_ = nullptr;
};

// The access flags of verbs for what peers may do.
int verbs_access(Access access);

class PoolState final : public Counted, public Link {
 public:
  PoolState(Ref<Reactor> reactor, const PoolOptions& options);
  // A quota on another pool.
  PoolState(Ref<PoolState> source, std::size_t limit);
  ~PoolState() override;

  Result<Buffer> take(std::size_t size);
  // The same for who knows better than its size tells: what is large and hardly used lies in ordinary pages.
  Result<Buffer> take(std::size_t size, Pages pages);
  void give_back(Chunk* chunk);
  void begin(Taking* taking);
  void withdraw(Taking* taking);
  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  [[nodiscard]] std::size_t registered() const {
    return source_ ? source_->registered() : ordinary_.registered + huge_.registered;
  }
  [[nodiscard]] std::size_t limit() const { return options_.limit; }
  [[nodiscard]] const Ref<Reactor>& reactor() const { return reactor_; }
  // The context ends: nobody gets anything any more.
  void shut_down();
  [[nodiscard]] Access remote() const { return source_ ? source_->remote() : options_.remote; }

  static const Chunk* chunk_of(const Buffer& buffer) { return buffer.chunk_; }

 private:
  // Where new pieces come from.
  struct Front {
    Slab* slab = nullptr;  // the last one of its kind
    std::size_t cut = 0;   // octets taken from its front
    std::size_t registered = 0;
  };
  Front& front_of(Pages pages) { return pages == Pages::kHuge ? huge_ : ordinary_; }
  Result<Chunk*> cut(std::size_t size, Pages pages);
  Result<void> grow(std::size_t size, Pages pages);
  // The pool that all memory comes from; this one, if it is no quota.
  PoolState& source() { return source_ ? source_->source() : *this; }
  [[nodiscard]] bool fits(std::size_t size) const;
  bool held_up(std::size_t size, std::uint64_t walk);
  void serve_waiters();

  Ref<Reactor> reactor_;
  Ref<PoolState> source_;
  PoolOptions options_;
  std::size_t in_use_ = 0;
  std::vector<std::unique_ptr<Slab>> slabs_;
  Front ordinary_;
  Front huge_;
  std::deque<Chunk> chunks_;
  std::vector<Chunk*> free_small_;
  std::map<std::size_t, Chunk*> free_large_;
  List<Operation> waiters_;    // of this pool and all quotas on it
  std::uint64_t walks_ = 0;    // over them
  std::uint64_t held_up_ = 0;  // a quota: the last walk that found it lacking
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
