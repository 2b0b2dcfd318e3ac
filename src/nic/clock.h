// The system's monotonic clock as an Instant: the one place below which nobody asks for the time.
#pragma once

#include <time.h>

#include "base/instant.h"

namespace rrdma::nic {

inline Instant now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
}

// What must be added to an Instant to make it time since 1970.
inline std::int64_t wall_offset_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec - now().ns;
}

}  // namespace rrdma::nic
