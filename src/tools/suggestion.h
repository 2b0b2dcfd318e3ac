// "Did you mean …?": the known word that a mistyped one is closest to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rrdma::tools {

// Single letters that must be changed, left out, added or swapped with their neighbour to make one of the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Empty if none is close enough to be meant. A word that begins as `mistyped` is close.
[[nodiscard]] std::string closest_word(std::string_view mistyped, std::span<const std::string> known);

}  // namespace rrdma::tools
