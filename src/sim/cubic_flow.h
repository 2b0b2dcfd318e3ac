// CubicFlow: a competing TCP flow for scenarios: CUBIC's window (RFC 9438), one acknowledgement for each
// segment, losses reported one round trip later. It occupies the queue in which our packets wait; everything
// else is a model, in which all segments are alike. It uses integers only, so a run is the same on every
// machine.
#pragma once

#include <cstdint>

#include "sim/world.h"

namespace rrdma::sim {

class CubicFlow {
 public:
  static constexpr std::uint32_t kSegmentOctets = 4096;

  // Sends to host `to` over an uplink of its own, starting at `begin`.
  CubicFlow(World& world, link::HostIndex to, std::uint64_t megabits_per_second, Duration rtt, Instant begin);

  [[nodiscard]] std::uint64_t octets() const { return octets_; }  // delivered

 private:
  void send();
  void enter_queue(std::uint64_t number);
  void acknowledge(std::uint64_t number);
  void lose(std::uint64_t number);
  void grow();

  World& world_;
  const link::HostIndex to_;
  const std::uint64_t megabits_per_second_;
  const Duration rtt_;
  Instant uplink_free_;
  std::uint64_t next_ = 0;       // number of the next segment
  std::uint64_t recovery_ = 0;   // losses before it have been accounted for
  std::uint32_t under_way_ = 0;  // segments
  std::uint64_t window_;         // in 1/1024 of a segment, like all fields below
  std::uint64_t threshold_ = UINT64_MAX;
  std::uint64_t most_ = 0;      // before the last loss
  std::uint64_t friendly_ = 0;  // Reno's window at this time
  std::uint64_t bend_ms_ = 0;   // K of the RFC
  Instant since_;               // the last loss
  std::uint64_t octets_ = 0;
};

}  // namespace rrdma::sim
