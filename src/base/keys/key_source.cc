#include "base/keys/key_source.h"

#include <bit>

#include "base/prng.h"

namespace rrdma {
namespace {

struct State {
  std::uint64_t a, b, c, d;

  void stir(int rounds) {
    for (; rounds > 0; --rounds) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32) + d;
      c += b;
      d = std::rotl(d, 21) ^ a;
      b = std::rotl(b, 17) ^ c;
      c = std::rotl(c, 32);
    }
  }
  void absorb(std::uint64_t word) {
    d ^= word;
    stir(2);
    a ^= word;
  }
};

}  // namespace

std::uint64_t keyed_hash(std::uint64_t key_low, std::uint64_t key_high, std::uint64_t value) {
  // The constants are the ASCII of "somepseudorandomlygeneratedbytes", chosen by the algorithm's authors.
  State state{key_low ^ 0x736f6d6570736575, key_high ^ 0x646f72616e646f6d, key_low ^ 0x6c7967656e657261,
              key_high ^ 0x7465646279746573};
  state.absorb(value);
  state.absorb(std::uint64_t{sizeof value} << 56);  // the length ends the message
  state.c ^= 0xff;
  state.stir(4);
  return state.a ^ state.b ^ state.c ^ state.d;
}

KeySource::KeySource(std::uint64_t seed) {
  Prng prng(seed);  // only stretches the seed: nobody sees its output
  key_low_ = prng.next();
  key_high_ = prng.next();
}

std::uint64_t KeySource::below(std::uint64_t bound) {
  // Numbers from an incomplete range at the end are drawn again, so that all are equally likely.
  const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
  for (;;) {
    if (const std::uint64_t value = next_wide(); value <= limit) return value % bound;
  }
}

}  // namespace rrdma
