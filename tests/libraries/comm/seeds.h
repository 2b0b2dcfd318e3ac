// Shared by all swarms: random choices from a seed, and the failure of a seed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/libraries/comm/patience.h"

namespace seeds {

using comm_test::address_of;

// The timeout for everything that must happen by itself.
inline const std::chrono::seconds kPatience = comm_test::patience(60);

[[noreturn]] inline void fail(std::uint64_t seed, const std::string& what) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace seeds
