// Pool and Buffer: memory that is registered with the device once and then handed out. A Pool grows by slabs
// up to its limit, and gives unused ones back beyond it. A Buffer belongs to its holder, or to the operation
// it was passed to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rrdma/comm/error.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

// Remote access rights to memory. Local use needs none of them.
enum class Access : unsigned { kNone = 0, kRead = 1, kWrite = 2, kAtomic = 4 };
// Combines the rights of both.
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
// Returns whether `whole` includes every right in `part`.
constexpr bool includes(Access whole, Access part) {
  return (static_cast<unsigned>(whole) & static_cast<unsigned>(part)) == static_cast<unsigned>(part);
}

// Sizes in KiB: 64_KiB is 65536.
constexpr std::size_t operator""_KiB(unsigned long long n) { return static_cast<std::size_t>(n) << 10; }
// Sizes in MiB.
constexpr std::size_t operator""_MiB(unsigned long long n) { return static_cast<std::size_t>(n) << 20; }
// Sizes in GiB.
constexpr std::size_t operator""_GiB(unsigned long long n) { return static_cast<std::size_t>(n) << 30; }

// The limit of a Pool, its growth, and the remote access to its memory.
struct PoolOptions {
  std::size_t limit = 1_GiB;  // bytes in use at a time; an endpoint takes 256 KiB by default
  std::size_t slab = 1_MiB;   // bytes to grow by; a larger request grows by its own size
  // Registers every slab with this remote access. A peer that learns one key can then reach the whole pool.
  // share() opens a single range instead. Such a pool uses no huge pages.
  Access remote = Access::kNone;
};

namespace detail {
class PoolState;
class Slab;

// A piece of a slab. The kHeadroom bytes before `data` belong to the library.
struct Chunk {
  std::byte* data = nullptr;
  std::size_t capacity = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint32_t kind = 0;
  Chunk* next = nullptr;
  Slab* slab = nullptr;
};
}  // namespace detail

// A piece of registered memory. Move-only. The destructor returns it to its pool.
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
  // The contents as objects of T. Trailing bytes that do not fill a T are left out.
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<T> as() { return {reinterpret_cast<T*>(data()), size_ / sizeof(T)}; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(data()), size_}; }
  // The contents as a peer reaches them, with the rights of PoolOptions::remote.
  [[nodiscard]] RemoteSpan<std::byte> remote() const {
    if (chunk_ == nullptr) return {};
    return {reinterpret_cast<std::uintptr_t>(chunk_->data), chunk_->rkey, static_cast<std::uint32_t>(size_)};
  }

 private:
  friend class Pool;
  friend class detail::PoolState;
  Buffer(detail::Ref<detail::PoolState> pool, detail::Chunk* chunk, std::size_t size)
      : pool_(std::move(pool)), chunk_(chunk), size_(size) {}
  void release() noexcept;

  detail::Ref<detail::PoolState> pool_;
  detail::Chunk* chunk_ = nullptr;
  std::size_t size_ = 0;
};

// Awaits a Buffer from a pool.
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

// Registered memory in size classes, mapped from a memfd. Large pieces use huge pages if the system has them.
// Belongs to its context's thread. A pool may be destroyed before its buffers.
class RRDMA_COMM_API Pool {
 public:
  // Creates a separate pool on the context's device.
  static Result<Pool> create(Context& context, const PoolOptions& options = {});
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;
  ~Pool();

  // Takes a Buffer of this size immediately. Fails with kNoMemory if the limit is reached.
  [[nodiscard]] Result<Buffer> take(std::size_t size);
  // Awaits a Buffer of this size. Waiters are served in order.
  [[nodiscard]] Taking wait(std::size_t size, Limit limit = {});
  // Creates a pool that draws from this one, with a limit of its own.
  [[nodiscard]] Pool quota(std::size_t limit) const;

  // Whether the buffer was taken from this pool, and not from one that draws from it.
  [[nodiscard]] bool owns(const Buffer& buffer) const;

  // Registers memory of the caller as a Buffer, without a copy. Peers that learn its key may read it while
  // the buffer exists. `owner` keeps the memory; it is released with the buffer. The buffer may be written to
  // a peer or read by it. It can be neither sent nor read into: that fails with kInvalid.
  [[nodiscard]] Result<Buffer> wrap(std::span<const std::byte> memory, std::shared_ptr<void> owner);
  // Whether wrap() made this buffer.
  [[nodiscard]] static bool wrapped(const Buffer& buffer);

  // Bytes in buffers that are handed out, bytes registered, and the limit in bytes.
  [[nodiscard]] std::size_t in_use() const;
  [[nodiscard]] std::size_t registered() const;
  [[nodiscard]] std::size_t limit() const;

 private:
  friend class Context;
  explicit Pool(detail::Ref<detail::PoolState> state);
  [[nodiscard]] const detail::Ref<detail::PoolState>& state_checked() const {
    if (!state_) detail::broken_contract("an operation on a Pool that was moved from");
    return state_;
  }
  detail::Ref<detail::PoolState> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
