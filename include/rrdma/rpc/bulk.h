// Bulk<T>: an array of T in registered memory, as an argument or a result. The framework does not copy it:
// the server's device reads an argument from the caller's memory (RDMA READ), and writes a result into memory
// that the caller lent (RDMA WRITE, CallOptions::lend). A value small enough for a frame is copied.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "rrdma/comm/buffer.h"
#include "rrdma/comm/context.h"
#include "rrdma/rpc/codec.h"

namespace rrdma::rpc {
inline namespace v0 {

template <typename T>
requires std::is_trivially_copyable_v<T>
class Bulk {
 public:
  Bulk() = default;
  explicit Bulk(comm::Buffer memory) : memory_(std::move(memory)) {}
  // Takes memory for `count` objects, uninitialised.
  static comm::Result<Bulk> of(comm::Context& context, std::size_t count) {
    auto memory = context.pool().take(count * sizeof(T));
    if (!memory) return memory.error();
    return Bulk(std::move(*memory));
  }

  [[nodiscard]] std::span<T> items() { return memory_.as<T>(); }
  [[nodiscard]] std::size_t size() const { return memory_.size() / sizeof(T); }
  [[nodiscard]] std::size_t size_bytes() const { return memory_.size(); }
  [[nodiscard]] T* begin() { return items().data(); }
  [[nodiscard]] T* end() { return items().data() + size(); }
  [[nodiscard]] T& operator[](std::size_t index) { return items()[index]; }
  // REQUIRES: count * sizeof(T) <= the memory's capacity.
  void resize(std::size_t count) { memory_.resize(count * sizeof(T)); }
  [[nodiscard]] comm::Buffer take() && { return std::move(memory_); }
  [[nodiscard]] comm::Buffer& memory() { return memory_; }
  [[nodiscard]] const comm::Buffer& memory() const { return memory_; }

 private:
  comm::Buffer memory_;
};

template <typename T>
struct IsBulk : std::false_type {};
template <typename T>
struct IsBulk<Bulk<T>> : std::true_type {};

// If the value is small, or no memory was lent for it, it is sent like any other value.
template <typename T>
struct Codec<Bulk<T>> {
  static constexpr std::uint32_t kSchema =
      static_cast<std::uint32_t>(sizeof(T) * 31 + alignof(T)) ^ 0x42000000U;
  static std::size_t size(const Bulk<T>& value) { return value.size_bytes(); }
  static void encode(const Bulk<T>& value, std::span<std::byte> into) {
    if (value.size_bytes() != 0) std::memcpy(into.data(), value.memory().data(), value.size_bytes());
  }
  // Fills the memory that `value` already holds.
  static bool decode(std::span<const std::byte> octets, Bulk<T>& value) {
    if (octets.size() % sizeof(T) != 0 || value.memory().capacity() < octets.size()) return false;
    value.memory().resize(octets.size());
    if (!octets.empty()) std::memcpy(value.memory().data(), octets.data(), octets.size());
    return true;
  }
};

namespace detail {

// Decodes a payload into a value. Returns false if it is invalid.
template <typename T>
bool read_payload(Payload& payload, comm::Context& context, T& into) {
  if constexpr (IsBulk<T>::value) {
    if (comm::Buffer memory = payload.take_buffer()) {
      into = T(std::move(memory));
      return into.size_bytes() == into.items().size_bytes();
    }
    if (payload.bytes().empty()) return true;
    auto memory = context.pool().take(payload.bytes().size());
    if (!memory) return false;
    into = T(std::move(*memory));
  }
  return Codec<T>::decode(payload.bytes(), into);
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
