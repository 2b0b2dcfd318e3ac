// Counters of an engine: packets and messages sent, received and refused, by reason. One list names them for
// code and tools. Each device has its own counters, and its QPs add to them, so they outlive a QP.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>

namespace rrdma::transport {

// clang-format off
#define RRDMA_ENGINE_COUNTERS(X)                                                                            \
  X(packets_sent) X(packets_received) X(octets_sent) X(octets_received)                                     \
  X(messages_sent) X(messages_received) X(direct_operations) X(direct_octets) X(direct_turn_octets_max)     \
  X(packets_resent) X(acks_sent) X(acks_received) X(duplicates) X(out_of_order)                             \
  X(sequence_naks_sent) X(sequence_naks_received)                                                           \
  X(rnr_naks_sent) X(rnr_naks_received) X(invalid_request_naks_sent) X(access_naks_sent)                    \
  X(operational_naks_sent) X(fatal_naks_received) X(implied_naks) X(ack_timeouts) X(early_retransmits)      \
  X(packets_lost) X(spurious_repairs) X(probes_sent) X(kept_early) X(arrivals_sent) X(arrivals_received)                                                        \
  X(rnr_timeouts) X(read_replays) X(atomic_replays) X(stale_responses)                                      \
  X(dropped_no_qp) X(dropped_qp_state) X(dropped_wrong_type) X(dropped_wrong_party)                         \
  X(dropped_wrong_source) X(dropped_wrong_destination) X(dropped_wrong_port)                                \
  X(dropped_pkey) X(dropped_qkey) X(dropped_no_receive) X(dropped_too_long) X(dropped_uc_gap)               \
  X(dropped_bogus_ack) X(cnps_sent) X(cnps_received) X(ecn_marked)                                          \
  X(send_completions) X(receive_completions) X(error_completions)
// clang-format on

struct Counters {
#define RRDMA_X(name) std::uint64_t name = 0;
  RRDMA_ENGINE_COUNTERS(RRDMA_X)
#undef RRDMA_X
};

class CountersByDevice {
 public:
  // References stay valid. Device 0 collects events that belong to no particular device.
  [[nodiscard]] Counters& of(std::uint16_t device) {
    while (devices_.size() <= device) devices_.emplace_back();
    return devices_[device];
  }
  [[nodiscard]] const std::deque<Counters>& all() const { return devices_; }
  [[nodiscard]] std::uint64_t sum(std::uint64_t Counters::*member) const {
    std::uint64_t sum = 0;
    for (const Counters& one : devices_) sum += one.*member;
    return sum;
  }

 private:
  std::deque<Counters> devices_;
};

struct CounterName {
  std::string_view name;
  std::uint64_t Counters::*member;
};

inline constexpr std::array kCounterNames = {
#define RRDMA_X(name) CounterName{#name, &Counters::name},
    RRDMA_ENGINE_COUNTERS(RRDMA_X)
#undef RRDMA_X
};

}  // namespace rrdma::transport
