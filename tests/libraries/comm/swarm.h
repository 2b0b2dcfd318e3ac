// Shared by both parts of the rrdma::comm swarm: self-checking messages, and connections with random
// profiles.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rrdma/comm/comm.h"
#include "tests/libraries/comm/seeds.h"

namespace comm_swarm {

using namespace rrdma::comm;
using namespace std::chrono_literals;
using seeds::address_of;
using seeds::fail;
using seeds::kFar;
using seeds::Random;

// A number first, then a pattern of it.
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
  if (random.chance(70)) return Limit(kFar);
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

}  // namespace comm_swarm
