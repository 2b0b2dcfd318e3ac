// Coverage: the events that happened in a run. A swarm without an RNR NAK proves nothing about RNR NAKs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "link/sim/sim_network.h"
#include "sim/plan.h"
#include "transport/qp/counters.h"

namespace rrdma::sim {

inline constexpr std::size_t kStatusCount = 22;
inline constexpr std::size_t kSendOpcodeCount = 16;
inline constexpr std::size_t kQpEventCount = 6;

struct Coverage {
  std::array<std::uint64_t, link::kFateCount> fates{};
  transport::Counters engine;
  std::array<std::uint64_t, kStatusCount> send_statuses{};
  std::array<std::uint64_t, kStatusCount> receive_statuses{};
  std::array<std::uint64_t, kSendOpcodeCount> operations{};  // by send opcode, completed with success
  std::array<std::uint64_t, kProvocationCount> provocations{};
  std::array<std::uint64_t, kQpEventCount> qp_events{};
  std::uint64_t completion_events = 0;
  std::uint64_t overflow_events = 0;
  std::uint64_t limit_events = 0;
  std::uint64_t pauses = 0;
  std::uint64_t rebuilt = 0;  // connections that failed and were re-established
  std::uint64_t psn_wraps = 0;

  void add(const Coverage& other);
  // Names the events that a whole swarm must contain and does not.
  [[nodiscard]] std::vector<std::string> missing() const;
};

std::string_view describe(Provocation provocation);

}  // namespace rrdma::sim
