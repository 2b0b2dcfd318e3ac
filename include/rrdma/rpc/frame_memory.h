// FrameMemory: the memory in which one frame is built. A small frame is sent as inline data and needs no
// registered memory. It lies in the object itself, so that a small call takes nothing from the pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "rrdma/comm/buffer.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

class FrameMemory {
 public:
  FrameMemory() {}  // NOLINT(modernize-use-equals-default): that would clear the bytes
  FrameMemory(FrameMemory&& other) noexcept { take_over(other); }
  FrameMemory& operator=(FrameMemory&& other) noexcept {
    if (this != &other) take_over(other);
    return *this;
  }

  // Provides room for a frame of this size and discards the previous frame.
  comm::Result<void> take(comm::Pool& pool, std::size_t size) {
    size_ = 0;
    if (size > kSmall) {
      auto memory = pool.take(size);
      if (!memory) return memory.error();
      buffer_ = std::move(*memory);
    }
    size_ = size;
    return {};
  }

  explicit operator bool() const { return size_ != 0; }
  [[nodiscard]] std::byte* data() { return buffer_ ? buffer_.data() : small_.data(); }
  [[nodiscard]] std::span<std::byte> bytes() { return {data(), size_}; }
  // Returns the registered memory; empty for a small frame.
  [[nodiscard]] comm::Buffer take_buffer() {
    if (buffer_) size_ = 0;
    return std::move(buffer_);
  }
  void release() {
    size_ = 0;
    buffer_ = comm::Buffer();
  }

 private:
  static constexpr std::size_t kSmall = 192;
  void take_over(FrameMemory& other) {
    size_ = std::exchange(other.size_, 0);
    buffer_ = std::move(other.buffer_);
    if (!buffer_) std::memcpy(small_.data(), other.small_.data(), size_);
  }

  std::size_t size_ = 0;
  comm::Buffer buffer_;
  std::array<std::byte, kSmall> small_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
