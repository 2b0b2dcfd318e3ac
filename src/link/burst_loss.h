// BurstLoss: decides which packets a FaultSpec loses, alone or in runs. Runs follow the Gilbert-Elliott
// model: nothing is lost in the good state, everything in the bad one. The transition probabilities give the
// requested loss rate and mean run length. Each packet draws exactly one random number.
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
