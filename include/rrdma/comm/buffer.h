// Pool and Buffer: memory that is registered once with the device and then lent out. A Pool grows by slabs up to its
// limit; a Buffer belongs to who holds it, and to the operation that it was given to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rrdma/comm/error.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

// What peers may do with memory. Local use needs none of these.
enum class Access : unsigned { kNone = 0, kRead = 1, kWrite = 2, kAtomic = 4 };
// Both.
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
// Whether `whole` allows all that `part` does.
constexpr bool includes(Access whole, Access part) {
  return (static_cast<unsigned>(whole) & static_cast<unsigned>(part)) == static_cast<unsigned>(part);
}

// Sizes: 64_KiB is 65536.
constexpr std::size_t operator""_KiB(unsigned long long n) { return static_cast<std::size_t>(n) << 10; }
// The same in units of 1024 KiB.
constexpr std::size_t operator""_MiB(unsigned long long n) { return static_cast<std::size_t>(n) << 20; }
// The same in units of 1024 MiB.
constexpr std::size_t operator""_GiB(unsigned long long n) { return static_cast<std::size_t>(n) << 30; }

// How large a Pool may become, how it grows, and what peers may do with its memory.
struct PoolOptions {
  std::size_t limit = 1_GiB;  // of memory in use at a time; an endpoint takes a quarter of a MiB by default
  std::size_t slab = 1_MiB;   // grown by this much, or by what is asked for where that is more
  // Opens every slab to peers, so that Buffer::remote() needs no registration of its own. Whoever learns one key can then
  // reach all of this pool; share() opens a single range instead.
  Access remote = Access::kNone;
};

namespace detail {
class PoolState;

// One piece of a slab; `data` has kHeadroom octets in front of it that belong to the library.
struct Chunk {
  std::byte* data = nullptr;
  std::size_t capacity = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint32_t kind = 0;
  Chunk* next = nullptr;
};
}  // namespace detail

// A piece of registered memory. Move-only; its destructor returns it to its pool.
class RRDMA_COMM_API Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : pool_(std::move(other.pool_)),
        chunk_(std::exchange(other.chunk_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      release();
      pool_ = std::move(other.pool_);
      chunk_ = std::exchange(other.chunk_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~Buffer() {
    if (chunk_ != nullptr) release();
  }

  explicit operator bool() const { return chunk_ != nullptr; }
  [[nodiscard]] std::byte* data() { return chunk_ != nullptr ? chunk_->data : nullptr; }
  [[nodiscard]] const std::byte* data() const { return chunk_ != nullptr ? chunk_->data : nullptr; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return chunk_ != nullptr ? chunk_->capacity : 0; }
  // REQUIRES: size <= capacity().
  void resize(std::size_t size) {
    if (size > capacity()) detail::broken_contract("Buffer::resize beyond its capacity");
    size_ = size;
  }
  [[nodiscard]] std::span<std::byte> bytes() { return {data(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data(), size_}; }
  // Its contents as objects of T; what does not fill a whole T at the end is left out.
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<T> as() { return {reinterpret_cast<T*>(data()), size_ / sizeof(T)}; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(data()), size_}; }

 private:
  friend class detail::PoolState;
  Buffer(detail::Ref<detail::PoolState> pool, detail::Chunk* chunk, std::size_t size)
      : pool_(std::move(pool)), chunk_(chunk), size_(size) {}
  void release() noexcept;

  detail::Ref<detail::PoolState> pool_;
  detail::Chunk* chunk_ = nullptr;
  std::size_t size_ = 0;
};

// Awaits a Buffer until the pool can give one.
class RRDMA_COMM_API Taking final : public Operation {
 public:
  Taking(Taking&&) noexcept = default;
  ~Taking() override { abandon(); }
  Result<Buffer> await_resume();

 private:
  friend class Pool;
  friend class detail::PoolState;
  Taking(detail::Ref<detail::PoolState> pool, std::size_t size, Limit limit);
  void begin() override;
  void withdraw() noexcept override;

  detail::Ref<detail::PoolState> pool_;
  std::size_t size_;
  Buffer buffer_;
};

// Registered memory, by size classes: mapped from a memfd, large pieces from huge pages where the system has them. Belongs to its context's thread; may be destroyed before its buffers are.
class RRDMA_COMM_API Pool {
 public:
  // A pool of its own on the context's device.
  static Result<Pool> create(Context& context, const PoolOptions& options = {});
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;
  ~Pool();

  // A Buffer of this size, at once; kNoMemory when the limit is reached.
  [[nodiscard]] Result<Buffer> take(std::size_t size);
  // Awaits one; first come, first served.
  [[nodiscard]] Taking wait(std::size_t size, Limit limit = {});
  // A pool that draws from this one and has a limit of its own: a quota.
  [[nodiscard]] Pool quota(std::size_t limit) const;

  // Octets in buffers that are out, registered in all, and at most.
  [[nodiscard]] std::size_t in_use() const;
  [[nodiscard]] std::size_t registered() const;
  [[nodiscard]] std::size_t limit() const;

 private:
  friend class Context;
  explicit Pool(detail::Ref<detail::PoolState> state);
  detail::Ref<detail::PoolState> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
