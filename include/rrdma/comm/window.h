// Window<T>: opens memory to one peer alone as long as the Window exists, through a memory window of the
// device.
//
// A Window exposes exactly the bytes of the span to the peer of the endpoint that lent it. Other peers have
// no access, even if they learn the key. Opening and closing cost a send queue request each, not a
// registration. On devices without memory windows (Device::memory_windows), Endpoint::lend fails with
// kNotSupported; use Share, which opens the bytes to every peer of the context that learns the key.
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

// The result of Endpoint::lend. Move-only. The destructor closes the window; so does the end of its endpoint.
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
  // Closes the window before destruction. A peer's later operation fails with kRemoteAccess.
  void revoke() { handle_ = detail::WindowHandle(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

 private:
  detail::WindowHandle handle_;
  std::span<T> memory_;
};

}  // namespace v0
}  // namespace rrdma::comm
