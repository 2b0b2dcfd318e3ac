// Prng: a seeded generator with the same sequence on every machine (xoshiro256**, seeded by splitmix64). It
// is for simulated faults. Never use it for a value that a peer sees or that protects anything: a dozen
// outputs reveal all others. Use KeySource for those.
#pragma once

#include <array>
#include <cstdint>

namespace rrdma {

class Prng {
 public:
  explicit Prng(std::uint64_t seed);

  std::uint64_t next();
  // Uniform in [0, bound). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high]. REQUIRES: low <= high.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  // True with the given probability in parts per million.
  bool chance_ppm(std::uint32_t ppm) { return below(1'000'000) < ppm; }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace rrdma
