// The forms of `rrdma stat`: an observation, seen through the command's choices, as tables or as JSON.
// Pure functions: the command asks, repeats and prints.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/stat/observation.h"
#include "wire/printer.h"

namespace rrdma::tools {

struct StatChoice {
  std::optional<std::uint32_t> pid;
  std::optional<std::uint32_t> qpn;
  std::string device;
  bool queue_pairs = false;
  bool zeros = false;

  [[nodiscard]] bool counters() const { return pid.has_value() || !device.empty(); }
};

// Takes out what was not chosen.
[[nodiscard]] Observation chosen_part(Observation seen, const StatChoice& choice);

// `before`: the observation before this one, for rates; null the first time. Addresses are cut so that
// lines fit `columns`.
[[nodiscard]] std::string stat_text(const Observation& now, const Observation* before,
                                    const StatChoice& choice, const wire::Palette& palette,
                                    std::size_t columns);
[[nodiscard]] nlohmann::ordered_json stat_json(const Observation& now, const StatChoice& choice);

// "2h05m", "3m12s", "7s".
[[nodiscard]] std::string duration_text(std::uint64_t ms);
// The peer of a queue pair: "10.0.0.2 0x030001", or "-" while it has none.
[[nodiscard]] std::string peer_text(const control::QpFields& fields);

}  // namespace rrdma::tools
