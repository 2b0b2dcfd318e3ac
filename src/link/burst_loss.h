// BurstLoss: which packets a FaultSpec loses, alone or in runs. Runs follow Gilbert's and Elliott's model: a good
// state in which nothing is lost and a bad one in which everything is, with chances to change between them that
// give the wanted share of losses and the wanted length of a run. One random number for each packet, always.
#pragma once

#include <cstdint>

#include "base/prng.h"
#include "link/fault_spec.h"

namespace rrdma::link {

class BurstLoss {
 public:
  [[nodiscard]] bool lose(const FaultSpec& spec, Prng& prng) {
    constexpr std::uint64_t kMillion = 1'000'000;
    if (spec.burst <= 1 || spec.drop_ppm >= kMillion) return bad_ = prng.chance_ppm(spec.drop_ppm);
    constexpr std::uint64_t kBillion = 1'000'000'000;
    const std::uint64_t leave = kBillion / spec.burst;
    const std::uint64_t enter = leave * spec.drop_ppm / (kMillion - spec.drop_ppm);
    const std::uint64_t drawn = prng.below(kBillion);
    return bad_ = bad_ ? drawn >= leave : drawn < enter;
  }

 private:
  bool bad_ = false;
};

}  // namespace rrdma::link
