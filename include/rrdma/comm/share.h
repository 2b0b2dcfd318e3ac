// Share<T>: memory that is open to peers for as long as the Share lives.
//
// What is exposed: exactly the octets of the span, to every peer of the same context that learns the key, with the access that was
// asked for. Its destructor revokes it: an operation of a peer that arrives later fails with kRemoteAccess, and that
// connection ends with it, as the transport has it.
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

// A registration of somebody's memory.
class RRDMA_COMM_API Registration {
 public:
  Registration() = default;
  static Result<Registration> of(Context& context, void* data, std::size_t size, Access access);
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

// Memory that every peer which learns its key may use, until the end of this object. Move-only.
template <typename T>
class Share {
 public:
  Share() = default;
  // Opens memory that the caller owns and that must outlive the Share.
  static Result<Share> open(Context& context, std::span<T> memory, Access access) {
    auto registration = detail::Registration::of(context, memory.data(), memory.size_bytes(), access);
    if (!registration) return registration.error();
    return Share(std::move(*registration), memory);
  }

  [[nodiscard]] RemoteSpan<T> remote() const {
    return RemoteSpan<T>(reinterpret_cast<std::uintptr_t>(memory_.data()), registration_.key(),
                         static_cast<std::uint32_t>(memory_.size()));
  }
  [[nodiscard]] std::span<T> memory() const { return memory_; }
  // Closes it before the end of its life.
  void revoke() { registration_.revoke(); }
  explicit operator bool() const { return static_cast<bool>(registration_); }

 private:
  Share(detail::Registration registration, std::span<T> memory)
      : registration_(std::move(registration)), memory_(memory) {}
  detail::Registration registration_;
  std::span<T> memory_;
};

// Share<T>::open.
template <typename T>
[[nodiscard]] Result<Share<T>> share(Context& context, std::span<T> memory, Access access) {
  return Share<T>::open(context, memory, access);
}
// Shares what is in a Buffer, which must outlive the Share.
[[nodiscard]] inline Result<Share<std::byte>> share(Context& context, Buffer& buffer, Access access) {
  return Share<std::byte>::open(context, buffer.bytes(), access);
}

}  // namespace v0
}  // namespace rrdma::comm
