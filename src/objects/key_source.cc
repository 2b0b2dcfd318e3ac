#include "objects/key_source.h"

#include <bit>

#include "base/prng.h"

namespace rrdma::objects {
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

KeySource::KeySource(std::uint64_t secret) {
  Prng prng(secret);
  key_low_ = prng.next();
  key_high_ = prng.next();
}

}  // namespace rrdma::objects
