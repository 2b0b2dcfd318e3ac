// Codec<T>: the encoding of a T. Trivially copyable types are sent as they are in memory, strings as their
// bytes; rrdma/rpc/protobuf.h adds protobuf messages. Payload: received bytes, either inside their message or
// in separate memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rrdma/comm/buffer.h"
#include "rrdma/comm/endpoint.h"

namespace rrdma::rpc {
inline namespace v0 {

// The argument or result of a method that has none.
struct Empty {};

template <typename T>
struct Codec;

// Excludes pointers, which have no meaning in another process.
template <typename T>
concept Plain =
    std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && !std::is_pointer_v<T> &&
    !std::is_member_pointer_v<T> && !std::is_reference_v<T>;

template <Plain T>
struct Codec<T> {
  // Both ends compare this number besides the name.
  static constexpr std::uint32_t kSchema = static_cast<std::uint32_t>(sizeof(T) * 31 + alignof(T));
  static std::size_t size(const T&) { return sizeof(T); }
  static void encode(const T& value, std::span<std::byte> into) {
    std::memcpy(into.data(), &value, sizeof(T));
  }
  static bool decode(std::span<const std::byte> octets, T& value) {
    if (octets.size() != sizeof(T)) return false;
    std::memcpy(static_cast<void*>(&value), octets.data(), sizeof(T));
    return true;
  }
};

template <>
struct Codec<Empty> {
  static constexpr std::uint32_t kSchema = 1;
  static std::size_t size(const Empty&) { return 0; }
  static void encode(const Empty&, std::span<std::byte>) {}
  static bool decode(std::span<const std::byte> octets, Empty&) { return octets.empty(); }
};

template <>
struct Codec<std::string> {
  static constexpr std::uint32_t kSchema = 2;
  static std::size_t size(const std::string& value) { return value.size(); }
  static void encode(const std::string& value, std::span<std::byte> into) {
    if (!value.empty()) std::memcpy(into.data(), value.data(), value.size());
  }
  static bool decode(std::span<const std::byte> octets, std::string& value) {
    value.assign(reinterpret_cast<const char*>(octets.data()), octets.size());
    return true;
  }
};

template <typename T>
concept Encodable = std::is_default_constructible_v<T> &&
    requires(const T& value, T& into, std::span<std::byte> room, std::span<const std::byte> octets) {
  { Codec<T>::size(value) } -> std::convertible_to<std::size_t>;
  Codec<T>::encode(value, room);
  { Codec<T>::decode(octets, into) } -> std::convertible_to<bool>;
};

class Payload {
 public:
  Payload() = default;
  Payload(comm::Message message, std::size_t offset, std::size_t size)
      : message_(std::move(message)), offset_(offset), size_(size) {}
  explicit Payload(comm::Buffer buffer) : buffer_(std::move(buffer)) {}
  explicit Payload(std::string octets) : own_(std::move(octets)) {}

  [[nodiscard]] std::span<const std::byte> bytes() const {
    if (message_) return message_.bytes().subspan(offset_, size_);
    if (buffer_) return buffer_.bytes();
    return std::as_bytes(std::span<const char>(own_.data(), own_.size()));
  }
  // True if the bytes are inside a message. Keeping such a payload withholds a credit from the peer.
  [[nodiscard]] bool loaned() const { return static_cast<bool>(message_); }
  [[nodiscard]] comm::Buffer take_buffer() { return std::move(buffer_); }
  void release() {
    message_ = comm::Message();
    buffer_ = comm::Buffer();
    std::string().swap(own_);  // clear() would keep the memory
  }

 private:
  comm::Message message_;
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
  comm::Buffer buffer_;
  std::string own_;
};

}  // namespace v0
}  // namespace rrdma::rpc
