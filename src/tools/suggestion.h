// "Did you mean …?": finds the known word closest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rrdma::tools {

// The number of single letters to change, remove, insert or swap with a neighbour to convert one word to the
// other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Empty if no word is close enough. A word that starts with `mistyped` counts as close.
[[nodiscard]] std::string closest_word(std::string_view mistyped, std::span<const std::string> known);

}  // namespace rrdma::tools
