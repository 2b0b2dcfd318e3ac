// PoolState: slabs of registered memory, and free pieces by size. A slab is mapped from a memfd, or from huge
// pages for large pieces, and registered as one region. Pieces are cut from its front and keep their size
// class. Sizes up to 64 KiB are powers of two and larger ones whole pages, so that equal requests reuse
// pieces. Requests of many sizes leave free pieces of each: when the slabs together exceed the limit of the
// pool, those without pieces in use are given back.
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

// Room for a message header before each piece.
inline constexpr std::size_t kHeadroom = 64;

// The kind of pages. Touching one byte of a huge page allocates all of it.
enum class Pages : std::uint8_t { kOrdinary, kHuge };

// A registered mapping.
class Slab {
 public:
  static Result<std::unique_ptr<Slab>> map(ibv_pd* domain, std::size_t size, int access, Pages pages);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const ibv_mr& region() const { return *region_; }
  [[nodiscard]] Pages pages() const { return pages_; }
  // Pieces in use.
  std::size_t in_use = 0;

 private:
  Slab(std::byte* data, std::size_t size, Pages pages) : data_(data), size_(size), pages_(pages) {}
  std::byte* data_;
  std::size_t size_;
  Pages pages_;
  ibv_mr* region_ = nullptr;
};

// Converts remote access rights to verbs access flags.
int verbs_access(Access access);
// Whether a peer may change the memory.
bool writes(Access access);
// The error for opening memory of const objects for writing.
Error written_const();

class PoolState final : public Counted, public Link {
 public:
  PoolState(Ref<Reactor> reactor, const PoolOptions& options);
  // Creates a quota on another pool.
  PoolState(Ref<PoolState> source, std::size_t limit);
  ~PoolState() override;

  Result<Buffer> take(std::size_t size);
  // Overrides the kind of pages: large but sparsely used memory should use ordinary pages.
  Result<Buffer> take(std::size_t size, Pages pages);
  // See Pool::wrap.
  Result<Buffer> wrap(std::span<const std::byte> memory, std::shared_ptr<void> owner);
  static bool wrapped(const Buffer& buffer);
  void give_back(Chunk* chunk);
  void begin(Taking* taking);
  void withdraw(Taking* taking);
  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  [[nodiscard]] std::size_t registered() const {
    return source_ ? source_->registered() : ordinary_.registered + huge_.registered;
  }
  [[nodiscard]] std::size_t limit() const { return options_.limit; }
  [[nodiscard]] const Ref<Reactor>& reactor() const { return reactor_; }
  // The context ends: fails all waiters.
  void shut_down();
  [[nodiscard]] Access remote() const { return source_ ? source_->remote() : options_.remote; }

  static const Chunk* chunk_of(const Buffer& buffer) { return buffer.chunk_; }

 private:
  // The slab from which new pieces are cut.
  struct Front {
    Slab* slab = nullptr;  // the newest of its kind
    std::size_t cut = 0;   // bytes cut from its front
    std::size_t registered = 0;
  };
  Front& front_of(Pages pages) { return pages == Pages::kHuge ? huge_ : ordinary_; }
  Result<Chunk*> cut(std::size_t size, Pages pages);
  Result<void> grow(std::size_t size, Pages pages);
  // Gives back the slabs without pieces in use.
  void shrink();
  // The most bytes to register. Pieces in use may keep slabs that are free otherwise.
  [[nodiscard]] std::size_t most_registered() const;
  // The pool that owns the memory: this one, unless it is a quota.
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
  Chunk* spare_ = nullptr;  // chunks of slabs that were given back
  std::vector<Chunk*> free_small_;
  std::map<std::size_t, Chunk*> free_large_;
  List<Operation> waiters_;    // of this pool and all quotas on it
  std::uint64_t walks_ = 0;    // passes over the waiters
  std::uint64_t held_up_ = 0;  // for a quota: the last walk that found it exhausted
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
