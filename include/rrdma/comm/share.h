// Share<T>: opens memory to peers as long as the Share exists.
//
// A Share exposes exactly the bytes of the span, with the requested access, to every peer of the same context
// that learns the key. The destructor revokes the access. A peer's later operation fails with kRemoteAccess,
// which also ends that connection, as the transport requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "rrdma/comm/buffer.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

namespace detail {

// A registration of memory that the caller owns.
class RRDMA_COMM_API Registration {
 public:
  Registration() = default;
  // `changes`: whether the memory may be written; otherwise `access` must not include kWrite or kAtomic.
  static Result<Registration> of(Context& context, const void* data, std::size_t size, Access access,
                                 bool changes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { revoke(); }
  void revoke() noexcept;
  [[nodiscard]] std::uint32_t key() const { return key_; }
  explicit operator bool() const { return region_ != nullptr; }

 private:
  Ref<Reactor> reactor_;
  void* region_ = nullptr;
  std::uint32_t key_ = 0;
};

}  // namespace detail

// Memory open to every peer that learns its key, as long as this object exists. Move-only.
template <typename T>
class Share {
 public:
  Share() = default;
  // Opens memory that the caller owns. The memory must outlive the Share. Memory of const objects can be
  // opened for reading only.
  static Result<Share> open(Context& context, std::span<T> memory, Access access) {
    auto registration =
        detail::Registration::of(context, memory.data(), memory.size_bytes(), access, !std::is_const_v<T>);
    if (!registration) return registration.error();
    return Share(std::move(*registration), memory);
  }

  [[nodiscard]] RemoteSpan<T> remote() const {
    return RemoteSpan<T>(reinterpret_cast<std::uintptr_t>(memory_.data()), registration_.key(),
                         static_cast<std::uint32_t>(memory_.size()));
  }
  [[nodiscard]] std::span<T> memory() const { return memory_; }
  // Revokes the access before destruction.
  void revoke() { registration_.revoke(); }
  explicit operator bool() const { return static_cast<bool>(registration_); }

 private:
  Share(detail::Registration registration, std::span<T> memory)
      : registration_(std::move(registration)), memory_(memory) {}
  detail::Registration registration_;
  std::span<T> memory_;
};

// Shorthand for Share<T>::open.
template <typename T>
[[nodiscard]] Result<Share<T>> share(Context& context, std::span<T> memory, Access access) {
  return Share<T>::open(context, memory, access);
}
// Shares the contents of a Buffer, which must outlive the Share.
[[nodiscard]] inline Result<Share<std::byte>> share(Context& context, Buffer& buffer, Access access) {
  return Share<std::byte>::open(context, buffer.bytes(), access);
}

}  // namespace v0
}  // namespace rrdma::comm
