// Protobuf messages as arguments and results. The code that protoc-gen-rrdma generates includes this header.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "rrdma/rpc/rpc.h"

namespace rrdma::rpc {
inline namespace v0 {

template <typename T>
requires std::is_base_of_v<google::protobuf::MessageLite, T>
struct Codec<T> {
  // Protobuf has its own compatibility rules, so only the name is checked.
  static constexpr std::uint32_t kSchema = 0;
  static std::size_t size(const T& value) { return value.ByteSizeLong(); }
  static void encode(const T& value, std::span<std::byte> into) {
    // The preceding call of size() cached the sizes in the message.
    value.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(into.data()));
  }
  static bool decode(std::span<const std::byte> octets, T& value) {
    return octets.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()) &&
           value.ParseFromArray(octets.data(), static_cast<int>(octets.size()));
  }
};

}  // namespace v0
}  // namespace rrdma::rpc
