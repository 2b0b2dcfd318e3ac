// PoolState: slabs of registered memory and the free pieces of each size. A slab is mapped from a memfd, registered as one
// region, and cut from its front; a piece that was cut once keeps its size class for good. Sizes up to 64 KiB are powers of
// two, larger ones are whole pages, so that equal requests find one another's pieces.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
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

// A mapping of a memfd, registered.
class Slab {
 public:
  static Result<std::unique_ptr<Slab>> map(ibv_pd* domain, std::size_t size, int access);
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
  void give_back(Chunk* chunk);
  void wait(Taking* taking);
  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  [[nodiscard]] std::size_t registered() const { return source_ ? source_->registered() : registered_; }
  [[nodiscard]] std::size_t limit() const { return options_.limit; }
  [[nodiscard]] const Ref<Reactor>& reactor() const { return reactor_; }
  // The context ends: nobody gets anything any more.
  void shut_down();
  [[nodiscard]] Access remote() const { return source_ ? source_->remote() : options_.remote; }

  static const Chunk* chunk_of(const Buffer& buffer) { return buffer.chunk_; }

 private:
  Result<Chunk*> cut(std::size_t size);
  Result<void> grow(std::size_t size);
  void serve_waiters();

  Ref<Reactor> reactor_;
  Ref<PoolState> source_;
  PoolOptions options_;
  std::size_t in_use_ = 0;
  std::size_t registered_ = 0;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::size_t cut_ = 0;  // octets taken from the front of the last slab
  std::deque<Chunk> chunks_;
  std::vector<Chunk*> free_small_;
  std::map<std::size_t, Chunk*> free_large_;
  List<Operation> waiters_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
