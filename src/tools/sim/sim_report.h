// The final report of `rrdma sim`: a table, a JSON object, or the description of a violation.
#pragma once

#include <string>

#include "dissection/printer.h"
#include "sim/exchange.h"
#include "tools/sim/sim_plan.h"

namespace rrdma::tools {

// Totals of all runs.
struct SimSummary {
  std::uint64_t runs = 0;
  std::uint64_t log_hash = 0;  // of the last run
  std::int64_t virtual_ns = 0;
  sim::Totals totals;
  sim::Coverage coverage;

  void add(sim::Exchange& exchange);
};

[[nodiscard]] std::string summary_table(const SimOptions& options, const SimSummary& summary,
                                        const wire::Palette& palette);
// `complete`: false if it was interrupted.
[[nodiscard]] std::string summary_json(const SimOptions& options, const SimSummary& summary, bool complete);

// Repeats the seed with a recorder. Returns the seed, the violated guarantee, the trace and the state of
// every QP. Writes a capture if the options ask for one, and sets `saved` if that succeeded.
[[nodiscard]] std::string violation_story(const sim::Plan& plan, const SimOptions& options, bool& saved);

// "312 us", "1.05 ms".
[[nodiscard]] std::string time_text(Duration time);

}  // namespace rrdma::tools
