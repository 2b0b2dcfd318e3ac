// Private data that both ends exchange through rdma_cm when connecting, before the application's own bytes.
//
//   hello  = magic(2) version(1) length(1) receive_depth(2) reserved(2) message_limit(4) application(length)
//   refusal = magic(2) version(1) kind(1) reason(1) length(1) text(length)
//
// Numbers are big-endian. The lengths are needed because rdma_cm pads private data with zeros.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kHelloHeader = 12;

struct Hello {
  std::uint16_t receive_depth = 0;
  std::uint32_t message_limit = 0;
  std::string application;
};

enum class Refusal : std::uint8_t { kApplication = 1, kVersion = 2, kBusy = 3 };

struct RefusalNote {
  Refusal kind = Refusal::kApplication;
  std::uint8_t version = 0;
  std::uint8_t reason = 0;
  std::string text;
};

// The reason why received bytes are not a valid hello.
enum class HelloFault : std::uint8_t { kNone, kForeign, kVersion, kMalformed };

// REQUIRES: the application's bytes fit; see kMaxHelloRequest and kMaxHelloAnswer.
std::string emit_hello(const Hello& hello);
HelloFault parse_hello(std::span<const std::byte> octets, Hello& hello);
std::string emit_refusal(const RefusalNote& note);
std::optional<RefusalNote> parse_refusal(std::span<const std::byte> octets);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
