// What the programs of this user (all programs, for root) tell about themselves at one moment: asked from
// the daemon, read from the pages that the programs publish. Nothing is started: without a daemon no
// program of this user uses RRDMA. Daemons of other users are named, not asked.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "control/messages.h"
#include "control/process_page.h"

namespace rrdma::tools {

struct ObservedProcess {
  control::ProcessEntry entry;
  std::vector<control::NamedCounter> counters;   // in the order in which the program publishes them
  std::vector<control::DeviceSnapshot> devices;  // what it has carried by each
  std::vector<control::QpSnapshot> queue_pairs;

  // 0 if the program has no such counter.
  [[nodiscard]] std::uint64_t counter(std::string_view name) const;
  // The device of one of its queue pairs; empty: not known.
  [[nodiscard]] std::string_view device_of(const control::QpFields& fields) const;
};

struct Observation {
  std::chrono::steady_clock::time_point at;
  std::optional<control::Status> daemon;
  std::vector<ObservedProcess> processes;  // by pid
  std::vector<control::DeviceEntry>
      devices;                     // with what programs carried that have ended since the daemon began
  std::vector<uid_t> other_users;  // who have daemons of their own here
};

// Without a daemon: an observation without one. Fails when there is a daemon that does not answer.
Result<Observation, Problem> observe();

// "RTS", "RC", "udp": the codes of a process page as people write them; "?" if unknown.
[[nodiscard]] std::string_view qp_state_name(std::uint8_t state);
[[nodiscard]] std::string_view qp_type_name(std::uint8_t type);
[[nodiscard]] std::string_view qp_link_name(std::uint8_t link);

// Names of control::QpCounter, in its order, as JSON and tables show them.
inline constexpr std::array<std::string_view, control::kQpCounterCount> kQpCounterNames = {
    "sent_messages",  "received_messages", "sent_octets",     "received_octets",
    "packets_resent", "ack_timeouts",      "sequence_naks",   "rnr_naks_received",
    "packets_lost",   "probes_sent",       "needless_repairs"};

// 0 if there is no such counter.
[[nodiscard]] std::uint64_t value_of(const std::vector<control::NamedCounter>& counters,
                                     std::string_view name);

[[nodiscard]] inline std::uint64_t value_of(const control::QpSnapshot& qp, control::QpCounter which) {
  return qp.counters[static_cast<std::size_t>(which)];
}

}  // namespace rrdma::tools
