// TraceContext: the W3C trace context of a call, in the metadata `traceparent`. It names the trace and the
// span of the caller, so that tracing systems such as OpenTelemetry can join the spans of several programs.
//
//   server, in ServerOptions::before:  auto from = TraceContext::of(call.metadata());
//   client, in ChannelOptions::before: options.metadata.add(kTraceParent, here.child().text());
//
// spans.h exports the spans of calls.
#pragma once

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rrdma/rpc/metadata.h"

namespace rrdma::rpc {
inline namespace v0 {

inline constexpr const char* kTraceParent = "traceparent";

struct TraceContext {
  static constexpr std::uint8_t kSampled = 1;

  std::array<std::uint8_t, 16> trace{};
  std::array<std::uint8_t, 8> span{};
  std::uint8_t flags = 0;

  // A new trace with its first span.
  static TraceContext fresh(bool sampled = true) {
    TraceContext made;
    made.flags = sampled ? kSampled : 0;
    fill(made.trace);
    fill(made.span);
    return made;
  }
  // Another span of the same trace.
  [[nodiscard]] TraceContext child() const {
    TraceContext made = *this;
    fill(made.span);
    return made;
  }
  [[nodiscard]] bool sampled() const { return (flags & kSampled) != 0; }

  // The context that a caller sent. Empty if there is none, or if it is invalid.
  static std::optional<TraceContext> of(const Metadata& metadata) {
    const auto text = metadata.find(kTraceParent);
    return text ? parse(*text) : std::nullopt;
  }

  // Parses "00-<32 digits>-<16 digits>-<2 digits>", in lower case. A later version may have more text after
  // it. All zeros are invalid, and so is the version ff.
  static std::optional<TraceContext> parse(std::string_view text) {
    TraceContext parsed;
    std::array<std::uint8_t, 1> version{};
    std::array<std::uint8_t, 1> flag{};
    if (text.size() < kSize || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
    if (!digits(text.substr(0, 2), version) || !digits(text.substr(3, 32), parsed.trace) ||
        !digits(text.substr(36, 16), parsed.span) || !digits(text.substr(53, 2), flag))
      return std::nullopt;
    if (version[0] == 0xff || (text.size() > kSize && (version[0] == 0 || text[kSize] != '-')))
      return std::nullopt;
    if (zero(parsed.trace) || zero(parsed.span)) return std::nullopt;
    parsed.flags = flag[0];
    return parsed;
  }
  // The value of `traceparent`.
  [[nodiscard]] std::string text() const {
    const std::array<std::uint8_t, 1> flag{flags};
    return "00-" + hex(trace) + "-" + hex(span) + "-" + hex(flag);
  }

  friend bool operator==(const TraceContext&, const TraceContext&) = default;

 private:
  static constexpr std::size_t kSize = 55;

  static bool zero(std::span<const std::uint8_t> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
  }
  static int digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
  }
  static bool digits(std::string_view text, std::span<std::uint8_t> into) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      const int high = digit(text[2 * i]);
      const int low = digit(text[2 * i + 1]);
      if (high < 0 || low < 0) return false;
      into[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return true;
  }
  static std::string hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }
  // Random bytes, never all zero.
  static void fill(std::span<std::uint8_t> bytes) {
    do {
      if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) bytes[0] = 1;
    } while (zero(bytes));
  }
};

}  // namespace v0
}  // namespace rrdma::rpc
