#include "pattern.h"

#include <algorithm>
#include <cstring>

namespace proof {
namespace {

// Calls `visit(at, octets, count)` for each piece of the stream that starts at `from`, at most eight bytes
// each.
template <typename Visit>
void each_word(std::size_t count, std::uint64_t key, std::size_t from, Visit visit) {
  std::size_t at = 0;
  while (at < count) {
    const std::size_t position = from + at;
    const std::uint64_t word = mix(key + position / 8 * 0x632be59bd9b4e019ull);
    std::uint8_t octets[8];
    std::memcpy(octets, &word, sizeof word);
    const std::size_t skip = position % 8;
    const std::size_t length = std::min<std::size_t>(8 - skip, count - at);
    if (!visit(at, octets + skip, length)) return;
    at += length;
  }
}

}  // namespace

void fill(std::uint8_t* octets, std::size_t count, std::uint64_t key, std::size_t from) {
  each_word(count, key, from, [&](std::size_t at, const std::uint8_t* word, std::size_t length) {
    std::memcpy(octets + at, word, length);
    return true;
  });
}

std::size_t first_wrong(const std::uint8_t* octets, std::size_t count, std::uint64_t key, std::size_t from) {
  std::size_t wrong = count;
  each_word(count, key, from, [&](std::size_t at, const std::uint8_t* word, std::size_t length) {
    if (std::memcmp(octets + at, word, length) == 0) return true;
    wrong = at;
    while (octets[wrong] == word[wrong - at]) ++wrong;
    return false;
  });
  return wrong;
}

}  // namespace proof
