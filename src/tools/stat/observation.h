// The state of this user's programs (for root: all programs) at one moment. It comes from the daemon and from
// the pages that programs publish. Starts no daemon: without one, no program of this user uses RRDMA. Daemons
// of other users are listed but not queried.
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
  std::vector<control::DeviceSnapshot> devices;  // traffic by device
  std::vector<control::QpSnapshot> queue_pairs;

  // Returns 0 if the program has no such counter.
  [[nodiscard]] std::uint64_t counter(std::string_view name) const;
  // The device of a queue pair. Empty if unknown.
  [[nodiscard]] std::string_view device_of(const control::QpFields& fields) const;
};

struct Observation {
  std::chrono::steady_clock::time_point at;
  std::optional<control::Status> daemon;
  std::vector<ObservedProcess> processes;     // by pid
  std::vector<control::DeviceEntry> devices;  // including programs that have ended since the daemon started
  std::vector<uid_t> other_users;             // other users with daemons in this network namespace
};

// Without a daemon, returns an observation without one. Fails if the daemon does not answer.
Result<Observation, Problem> observe();

// "RTS", "RC", "udp": names for the codes of a process page; "?" if unknown.
[[nodiscard]] std::string_view qp_state_name(std::uint8_t state);
[[nodiscard]] std::string_view qp_type_name(std::uint8_t type);
[[nodiscard]] std::string_view qp_link_name(std::uint8_t link);

// Names of control::QpCounter, in its order, for JSON and tables.
inline constexpr std::array<std::string_view, control::kQpCounterCount> kQpCounterNames = {
    "sent_messages",  "received_messages", "sent_octets",     "received_octets",
    "packets_resent", "ack_timeouts",      "sequence_naks",   "rnr_naks_received",
    "packets_lost",   "probes_sent",       "needless_repairs"};

// Returns 0 if there is no such counter.
[[nodiscard]] std::uint64_t value_of(const std::vector<control::NamedCounter>& counters,
                                     std::string_view name);

[[nodiscard]] inline std::uint64_t value_of(const control::QpSnapshot& qp, control::QpCounter which) {
  return qp.counters[static_cast<std::size_t>(which)];
}

}  // namespace rrdma::tools
