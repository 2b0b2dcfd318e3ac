// FaultDice: decides the fate of each packet according to a FaultSpec. The same seed gives the same fates in
// every run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prng.h"
#include "link/burst_loss.h"
#include "link/fault_spec.h"

namespace rrdma::link {

inline constexpr std::uint8_t kCongestionExperienced = 3;  // both ECN bits

class FaultDice {
 public:
  struct Fate {
    bool drop = false;
    bool duplicate = false;
    bool reorder = false;
    bool corrupt = false;
    bool mark = false;
    std::int32_t corrupt_bit = -1;
    std::uint32_t overtakers = 0;
    Duration delay;
    Duration duplicate_delay;
  };

  static constexpr Duration kReorderHold = microseconds(200);

  explicit FaultDice(const FaultSpec& spec) : spec_(spec), prng_(spec.seed) {}

  [[nodiscard]] const FaultSpec& spec() const { return spec_; }
  // True if every packet has to wait.
  [[nodiscard]] bool delays() const {
    return spec_.delay.ns != 0 || spec_.delay_spread.ns != 0 || spec_.rate_kbps != 0;
  }
  // Draws only for faults that the specification enables: each draw costs time and would distort benchmarks.
  [[nodiscard]] Fate roll() {
    const auto happens = [&](std::uint32_t ppm) { return ppm != 0 && prng_.chance_ppm(ppm); };
    Fate fate;
    fate.drop = spec_.drop_ppm != 0 && loss_.lose(spec_, prng_);
    fate.duplicate = happens(spec_.duplicate_ppm);
    fate.reorder = happens(spec_.reorder_ppm);
    fate.corrupt = happens(spec_.corrupt_ppm);
    fate.mark = happens(spec_.ecn_ppm);
    if (fate.corrupt) fate.corrupt_bit = static_cast<std::int32_t>(prng_.below(1u << 20));
    if (fate.reorder) fate.overtakers = static_cast<std::uint32_t>(prng_.between(1, overtakers_max()));
    fate.delay = delay();
    if (fate.duplicate) fate.duplicate_delay = delay();
    return fate;
  }
  // How long a packet with this fate waits. Without enough traffic to overtake it, it waits in proportion to
  // the intended number of overtakers. With a delay, a reordered packet waits longer than any packet behind
  // it.
  [[nodiscard]] Duration wait_of(const Fate& fate) const {
    if (!fate.reorder) return fate.delay;
    if (delays()) return spec_.delay + spec_.delay_spread + fate.delay;
    return kReorderHold * fate.overtakers / overtakers_max();
  }

 private:
  static constexpr std::uint32_t kOvertakersMax = 4;  // if the specification gives none

  [[nodiscard]] std::uint32_t overtakers_max() const {
    return spec_.depth != 0 ? spec_.depth : kOvertakersMax;
  }
  [[nodiscard]] Duration delay() {
    if (spec_.delay_spread.ns == 0) return spec_.delay;
    const auto spread = static_cast<std::uint64_t>(spec_.delay_spread.ns);
    const auto offset = static_cast<std::int64_t>(prng_.between(0, 2 * spread));
    return Duration{std::max<std::int64_t>(0, spec_.delay.ns - spec_.delay_spread.ns + offset)};
  }

  FaultSpec spec_;
  Prng prng_;
  BurstLoss loss_;
};

}  // namespace rrdma::link
