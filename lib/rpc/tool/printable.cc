#include "lib/rpc/tool/printable.h"

#include <algorithm>
#include <cstdint>

namespace rrdma::rpc::tool {
namespace {

// The UTF-8 character at the front of a text; `bytes` is 0 if there is none.
struct Character {
  std::uint32_t number = 0;
  std::size_t bytes = 0;
};

Character first_of(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xc2 && lead < 0xe0   ? 2
                            : lead >= 0xe0 && lead < 0xf0 ? 3
                            : lead >= 0xf0 && lead < 0xf5 ? 4
                                                          : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  std::uint32_t number = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return {};
    number = number << 6 | (at(i) & 0x3f);
  }
  const bool too_long = (bytes == 3 && number < 0x800) || (bytes == 4 && number < 0x10000);
  const bool none = number > 0x10ffff || (number >= 0xd800 && number < 0xe000);
  return too_long || none ? Character{} : Character{number, bytes};
}

// Control characters, and those that change the direction or the place of others.
bool is_obeyed(std::uint32_t number) {
  return number < 0x20 || (number >= 0x7f && number < 0xa0) || (number >= 0x200b && number <= 0x200f) ||
         (number >= 0x2028 && number <= 0x202e) || (number >= 0x2060 && number <= 0x206f) || number == 0xfeff;
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_of(text);
    const bool plain = (character.number == '\n' && lines == Lines::kKept) || character.number == '\t';
    if (character.bytes != 0 && (plain || !is_obeyed(character.number))) {
      out += text.substr(0, character.bytes);
      text.remove_prefix(character.bytes);
      continue;
    }
    for (std::size_t left = std::max<std::size_t>(character.bytes, 1); left != 0; --left) {
      const auto byte = static_cast<std::uint8_t>(text.front());
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xf]};
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace rrdma::rpc::tool
