#include "tools/suggestion.h"

#include <algorithm>
#include <vector>

namespace rrdma::tools {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Dynamic programming, row by row. The row before the last is needed for swaps.
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::string closest_word(std::string_view mistyped, std::span<const std::string> known) {
  std::string closest;
  std::size_t least = mistyped.size() <= 3 ? 2 : mistyped.size() <= 7 ? 3 : 4;  // an exclusive bound
  for (const std::string& word : known) {
    const bool begins = mistyped.size() >= 2 && std::string_view(word).starts_with(mistyped);
    const std::size_t distance = begins ? 1 : edit_distance(mistyped, word);
    if (distance >= least) continue;
    least = distance;
    closest = word;
  }
  return closest;
}

}  // namespace rrdma::tools
