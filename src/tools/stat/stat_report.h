// Formats an observation for `rrdma stat` as tables or JSON. Pure functions; the command queries, repeats and
// prints.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dissection/printer.h"
#include "tools/stat/observation.h"

namespace rrdma::tools {

struct StatChoice {
  std::optional<std::uint32_t> pid;
  std::optional<std::uint32_t> qpn;
  std::string device;
  bool queue_pairs = false;
  bool zeros = false;

  [[nodiscard]] bool counters() const { return pid.has_value() || !device.empty(); }
};

// Removes everything that was not chosen.
[[nodiscard]] Observation chosen_part(Observation seen, const StatChoice& choice);

// `before`: the previous observation, for rates; null the first time. Leaves out columns that do not fit the
// terminal.
[[nodiscard]] std::string stat_text(const Observation& now, const Observation* before,
                                    const StatChoice& choice, const wire::Palette& palette,
                                    std::size_t columns);
// The same as JSON (stat_json.cc). `one_line`: for --watch.
[[nodiscard]] std::string stat_json(const Observation& now, const StatChoice& choice, bool one_line);

// Counters summed over the processes, in the order of the first process that has them.
[[nodiscard]] std::vector<control::NamedCounter> summed_counters(const Observation& seen);

// The traffic of existing queue pairs, by local address and thus by device. Sorted by address; without queue
// pairs that have no path.
struct Carried {
  wire::Gid address;
  std::uint64_t queue_pairs = 0;
  std::array<std::uint64_t, control::kQpCounterCount> counters{};
};
[[nodiscard]] std::vector<Carried> carried_by_address(const Observation& seen);

// "2h05m", "3m12s", "7s".
[[nodiscard]] std::string duration_text(std::uint64_t ms);

}  // namespace rrdma::tools
