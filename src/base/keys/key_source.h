// KeySource: numbers that are unpredictable without the secret, however many of them are known. Everything
// that a peer sees or that protects a connection comes from here: memory keys, first PSNs, communication and
// transaction IDs. A plain generator (Prng) is not enough: a dozen outputs reveal its state. This is
// SipHash-2-4 of a counter, keyed by the secret. The same secret gives the same sequence on every machine, so
// a simulation can be repeated.
#pragma once

#include <cstdint>

namespace rrdma {

// SipHash-2-4 of the eight bytes of `value`, least significant first.
std::uint64_t keyed_hash(std::uint64_t key_low, std::uint64_t key_high, std::uint64_t value);

class KeySource {
 public:
  // The sequence of a seed, for simulations and tests.
  explicit KeySource(std::uint64_t seed);
  // The whole key. system_keys() of base/entropy.h gets one from the kernel.
  KeySource(std::uint64_t key_low, std::uint64_t key_high) : key_low_(key_low), key_high_(key_high) {}

  std::uint32_t next() { return static_cast<std::uint32_t>(next_wide()); }
  std::uint64_t next_wide() { return keyed_hash(key_low_, key_high_, drawn_++); }
  // An independent source: its numbers reveal nothing about those of this one.
  KeySource branch() {
    const std::uint64_t low = next_wide();
    return {low, next_wide()};
  }
  // Uniform in [0, bound). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high]. REQUIRES: low <= high.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t key_low_, key_high_;
  std::uint64_t drawn_ = 0;
};

}  // namespace rrdma
