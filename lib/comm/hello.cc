#include "lib/comm/hello.h"

#include <algorithm>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr char kMagic[2] = {'R', 'c'};
constexpr std::size_t kRefusalHeader = 6;
constexpr std::size_t kMaxRefusalText = 140;  // of the 148 bytes of private data in a reject
constexpr std::uint16_t kLeastDepth = 4;

void put16(std::string& out, std::uint16_t value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value));
}
std::uint8_t octet(std::span<const std::byte> octets, std::size_t at) {
  return std::to_integer<std::uint8_t>(octets[at]);
}
std::uint16_t number16(std::span<const std::byte> octets, std::size_t at) {
  return static_cast<std::uint16_t>(octet(octets, at) << 8 | octet(octets, at + 1));
}
bool has_magic(std::span<const std::byte> octets) {
  return octets.size() >= 3 && octet(octets, 0) == static_cast<std::uint8_t>(kMagic[0]) &&
         octet(octets, 1) == static_cast<std::uint8_t>(kMagic[1]);
}
std::string text_of(std::span<const std::byte> octets) {
  return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

}  // namespace

std::string emit_hello(const Hello& hello) {
  std::string out(kMagic, 2);
  out.push_back(static_cast<char>(kProtocolVersion));
  out.push_back(static_cast<char>(hello.application.size()));
  put16(out, hello.receive_depth);
  put16(out, 0);
  put16(out, static_cast<std::uint16_t>(hello.message_limit >> 16));
  put16(out, static_cast<std::uint16_t>(hello.message_limit));
  return out + hello.application;
}

HelloFault parse_hello(std::span<const std::byte> octets, Hello& hello) {
  if (!has_magic(octets)) return HelloFault::kForeign;
  if (octet(octets, 2) != kProtocolVersion) return HelloFault::kVersion;
  if (octets.size() < kHelloHeader) return HelloFault::kMalformed;
  const std::size_t length = octet(octets, 3);
  if (octets.size() < kHelloHeader + length) return HelloFault::kMalformed;
  hello.receive_depth = number16(octets, 4);
  hello.message_limit = static_cast<std::uint32_t>(number16(octets, 8)) << 16 | number16(octets, 10);
  if (hello.receive_depth < kLeastDepth) return HelloFault::kMalformed;
  hello.application = text_of(octets.subspan(kHelloHeader, length));
  return HelloFault::kNone;
}

std::string emit_refusal(const RefusalNote& note) {
  const std::string_view text = std::string_view(note.text).substr(0, kMaxRefusalText);
  std::string out(kMagic, 2);
  out.push_back(static_cast<char>(kProtocolVersion));
  out.push_back(static_cast<char>(note.kind));
  out.push_back(static_cast<char>(note.reason));
  out.push_back(static_cast<char>(text.size()));
  return out.append(text);
}

std::optional<RefusalNote> parse_refusal(std::span<const std::byte> octets) {
  if (!has_magic(octets) || octets.size() < kRefusalHeader) return std::nullopt;
  RefusalNote note;
  note.version = octet(octets, 2);
  note.kind = static_cast<Refusal>(octet(octets, 3));
  note.reason = octet(octets, 4);
  const std::size_t length = std::min<std::size_t>(octet(octets, 5), octets.size() - kRefusalHeader);
  note.text = text_of(octets.subspan(kRefusalHeader, length));
  return note;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
