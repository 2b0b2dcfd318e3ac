// RemoteSpan<T>, RemoteRef<T>: typed references to a peer's memory. They are plain values that can be sent in
// messages. The receiver may use them in Endpoint::read, write, compare_swap and fetch_add, as long as the
// owner keeps the memory open (Share, Window, or a pool with remote access).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rrdma/comm/error.h"

namespace rrdma::comm {
inline namespace v0 {

// An address and key as sent: 16 bytes, little-endian on every supported machine.
struct RemoteAddress {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

// One T in a peer's memory. Atomic operations take RemoteRef<std::uint64_t>, which must be aligned to 8
// bytes.
template <typename T>
requires std::is_trivially_copyable_v<std::remove_const_t<T>>
class RemoteRef {
 public:
  RemoteRef() = default;
  RemoteRef(std::uint64_t address, std::uint32_t key) : address_(address), key_(key) {}
  operator RemoteRef<const T>() const { return RemoteRef<const T>(address_, key_); }
  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  // The member at this byte offset.
  template <typename M>
  [[nodiscard]] RemoteRef<M> member(std::size_t offset) const {
    return RemoteRef<M>(address_ + offset, key_);
  }

 private:
  std::uint64_t address_ = 0;
  std::uint32_t key_ = 0;
};

// `size()` objects of T in a peer's memory. first, last, subspan and [] check their bounds.
template <typename T>
requires std::is_trivially_copyable_v<std::remove_const_t<T>>
class RemoteSpan {
 public:
  RemoteSpan() = default;
  RemoteSpan(std::uint64_t address, std::uint32_t key, std::uint32_t size)
      : address_(address), key_(key), size_(size) {}
  operator RemoteSpan<const T>() const { return RemoteSpan<const T>(address_, key_, size_); }

  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t size_bytes() const { return std::size_t{size_} * sizeof(T); }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  [[nodiscard]] RemoteSpan subspan(std::size_t offset, std::size_t count) const {
    if (offset > size_ || count > size_ - offset)
      detail::broken_contract("RemoteSpan: outside of its bounds");
    return RemoteSpan(address_ + offset * sizeof(T), key_, static_cast<std::uint32_t>(count));
  }
  [[nodiscard]] RemoteSpan first(std::size_t count) const { return subspan(0, count); }
  [[nodiscard]] RemoteSpan last(std::size_t count) const { return subspan(size_ - count, count); }
  [[nodiscard]] RemoteRef<T> operator[](std::size_t index) const {
    if (index >= size_) detail::broken_contract("RemoteSpan: outside of its bounds");
    return RemoteRef<T>(address_ + index * sizeof(T), key_);
  }
  [[nodiscard]] RemoteSpan<std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>> as_bytes()
      const {
    return {address_, key_, static_cast<std::uint32_t>(size_bytes())};
  }

 private:
  std::uint64_t address_ = 0;
  std::uint32_t key_ = 0;
  std::uint32_t size_ = 0;
};

static_assert(std::is_trivially_copyable_v<RemoteSpan<int>> && sizeof(RemoteSpan<int>) == 16);
static_assert(std::is_trivially_copyable_v<RemoteRef<int>> && sizeof(RemoteRef<int>) == 16);

}  // namespace v0
}  // namespace rrdma::comm
