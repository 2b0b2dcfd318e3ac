// formatted(): text from a format string that the compiler checks. It wraps {fmt} in one compiled function:
// callers include only its small header. librrdma.so carries one copy of the formatting code and needs no
// shared {fmt}.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace rrdma {

[[nodiscard]] std::string format_text(fmt::string_view text, fmt::format_args values);

// `formatted("{} of {}", 3, 4)` returns "3 of 4".
template <typename... Values>
[[nodiscard]] std::string formatted(fmt::format_string<Values...> text, Values&&... values) {
  return format_text(text, fmt::make_format_args(values...));
}

// Concatenates the words of a range, with a separator between them.
template <typename Words>
[[nodiscard]] std::string joined(const Words& words, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& word : words) {
    if (!std::exchange(first, false)) text += separator;
    text += word;
  }
  return text;
}

}  // namespace rrdma
