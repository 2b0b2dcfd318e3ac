// PoolResource: a std::pmr::memory_resource over a Pool, for containers in registered memory.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <new>
#include <unordered_map>
#include <utility>

#include "rrdma/comm/buffer.h"

namespace rrdma::comm {
inline namespace v0 {

// Belongs to the pool's thread. Must outlive its allocations. Each allocation is one Buffer, aligned to at
// most 64 bytes. Throws std::bad_alloc if the pool's limit is reached.
class PoolResource final : public std::pmr::memory_resource {
 public:
  explicit PoolResource(Pool& pool) : pool_(&pool) {}
  // Returns the Buffer of an allocation that starts at this address, or null. The Buffer may be shared or
  // sent while it is allocated.
  [[nodiscard]] Buffer* buffer_of(const void* memory) {
    const auto found = buffers_.find(memory);
    return found == buffers_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr std::size_t kAlignment = 64;

  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (alignment > kAlignment) throw std::bad_alloc();
    auto buffer = pool_->take(size);
    if (!buffer) throw std::bad_alloc();
    void* memory = buffer->data();
    buffers_.emplace(memory, std::move(*buffer));
    return memory;
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override { buffers_.erase(memory); }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Pool* pool_;
  std::unordered_map<const void*, Buffer> buffers_;
};

}  // namespace v0
}  // namespace rrdma::comm
