// Texts of strangers go to terminals and into logs of lines, and a terminal obeys control characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rrdma {

// The bytes of the character at the front of a text that is not empty. 0 if it is a control character of
// ASCII or of Latin-1 (U+0080 to U+009F), or if the bytes are not UTF-8.
[[nodiscard]] constexpr std::size_t visible_octets(std::string_view text) {
  const auto octet = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0;
  };
  const unsigned lead = octet(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  if (lead < 0xc2 || lead >= 0xf5 || (lead == 0xc2 && octet(1) < 0xa0)) return 0;
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  for (std::size_t i = 1; i < size; ++i) {
    if ((octet(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

}  // namespace rrdma
