// What both parts of the swarm stand on: seeded choices, messages that say by themselves whether they are whole, and how a seed fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>

#include "rrdma/comm/comm.h"

namespace comm_swarm {

using namespace rrdma::comm;
using namespace std::chrono_literals;

// How long anything may take that must come by itself. An emulated machine that shares its processors needs more (tests/interop).
inline const std::chrono::seconds kPatience{
    std::getenv("RRDMA_TEST_PATIENCE") != nullptr ? std::atoi(std::getenv("RRDMA_TEST_PATIENCE")) : 60};

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

// A number in front, then a pattern of it.
inline void fill(std::span<std::byte> octets, std::uint32_t number) {
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::byte>(number * 31 + i * 7);
  if (octets.size() >= 4) std::memcpy(octets.data(), &number, 4);
}
inline bool sound(std::span<const std::byte> octets, std::uint32_t number) {
  for (std::size_t i = 4; i < octets.size(); ++i) {
    if (octets[i] != static_cast<std::byte>(number * 31 + i * 7)) return false;
  }
  return true;
}

inline Limit any_limit(Random& random) {
  if (random.chance(70)) return Limit(kPatience);
  return Limit(std::chrono::microseconds(random.below(3000)));
}
inline std::size_t any_size(Random& random) { return 4 + random.below(random.chance(50) ? 100 : 2000); }

inline Profile any_profile(std::uint64_t seed) {
  Random random(seed);
  Profile profile;
  profile.message_limit = 2100;
  profile.receive_depth = static_cast<std::uint16_t>(4 + random.below(12));
  profile.send_depth = static_cast<std::uint16_t>(4 + random.below(12));
  return profile;
}

// The device's first IPv4 address.
inline std::string host_of(const Context& context) {
  for (const std::string& address : context.device().addresses) {
    if (address.find(':') == std::string::npos) return address;
  }
  return context.device().addresses.at(0);
}

}  // namespace comm_swarm
