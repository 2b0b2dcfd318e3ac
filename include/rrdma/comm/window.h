// Window<T>: memory that is open to one peer alone for as long as the Window lives, through a memory window of the device.
//
// What is exposed: exactly the octets of the span, to the peer of the endpoint that lent it and to nobody else, even when others
// learn the key. Opening and closing one costs a request of the send queue, not a registration. Where a device has no
// memory windows (Device::memory_windows), Endpoint::lend fails with kNotSupported and Share is what there is: it opens the
// same octets to every peer of the context that learns the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "rrdma/comm/ref.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Endpoint;

namespace detail {
class WindowState;

class RRDMA_COMM_API WindowHandle {
 public:
  WindowHandle();
  explicit WindowHandle(Ref<WindowState> state);
  WindowHandle(WindowHandle&&) noexcept;
  WindowHandle& operator=(WindowHandle&&) noexcept;
  ~WindowHandle();
  [[nodiscard]] std::uint32_t key() const;
  explicit operator bool() const { return static_cast<bool>(state_); }

 private:
  Ref<WindowState> state_;
};
}  // namespace detail

// What Endpoint::lend gives. Move-only; its destructor closes the window, and so does the end of its endpoint.
template <typename T>
class Window {
 public:
  Window() = default;
  Window(detail::WindowHandle handle, std::span<T> memory) : handle_(std::move(handle)), memory_(memory) {}

  // REQUIRES: not revoked.
  [[nodiscard]] RemoteSpan<T> remote() const {
    return RemoteSpan<T>(reinterpret_cast<std::uintptr_t>(memory_.data()), handle_.key(),
                         static_cast<std::uint32_t>(memory_.size()));
  }
  [[nodiscard]] std::span<T> memory() const { return memory_; }
  // Closes it before the end of its life. An operation of the peer that arrives later fails with kRemoteAccess.
  void revoke() { handle_ = detail::WindowHandle(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

 private:
  detail::WindowHandle handle_;
  std::span<T> memory_;
};

}  // namespace v0
}  // namespace rrdma::comm
