// The speed of a port in verbs terms: lanes times a signaling rate.
#pragma once

#include <cstdint>

namespace rrdma::verbs {

struct PortSpeed {
  std::uint8_t width;  // active_width: 1 is one lane, 2 is four
  std::uint8_t speed;  // active_speed: the rate of a lane
};

// active_width for 1 or 4 lanes.
constexpr std::uint8_t width_code(std::uint8_t lanes) { return lanes == 4 ? 2 : 1; }

// The fastest combination that does not exceed the interface's speed.
constexpr PortSpeed port_speed_of(std::uint64_t mbps) {
  struct Step {
    std::uint64_t mbps;
    PortSpeed speed;
  };
  constexpr std::uint8_t kOneLane = 1, kFourLanes = 2;
  constexpr Step kSteps[] = {{400'000, {kFourLanes, 128}}, {200'000, {kFourLanes, 64}},
                             {100'000, {kFourLanes, 32}},  {50'000, {kOneLane, 64}},
                             {40'000, {kFourLanes, 4}},    {25'000, {kOneLane, 32}},
                             {10'000, {kFourLanes, 1}}};
  for (const Step& step : kSteps) {
    if (mbps >= step.mbps) return step.speed;
  }
  return {kOneLane, 1};
}

}  // namespace rrdma::verbs
