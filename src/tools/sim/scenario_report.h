// `rrdma sim --scenario`: the plans by name, and the report of a run: a table, a JSON object, or a chart.
#pragma once

#include <string>

#include "base/result.h"
#include "dissection/printer.h"
#include "sim/scenario.h"
#include "tools/sim/sim_plan.h"

namespace rrdma::tools {

// The plan of the scenario in the options. The error is a sentence about the wrong option.
[[nodiscard]] Result<sim::ScenarioPlan, std::string> scenario_plan(const SimOptions& options);

[[nodiscard]] std::string scenario_table(const SimOptions& options, const sim::ScenarioPlan& plan,
                                         const sim::ScenarioReport& report, const wire::Palette& palette);
[[nodiscard]] std::string scenario_json(const SimOptions& options, const sim::ScenarioPlan& plan,
                                        const sim::ScenarioReport& report);
// Goodput of every flow and the queue over time, as SVG.
[[nodiscard]] std::string scenario_svg(const SimOptions& options, const sim::ScenarioPlan& plan,
                                       const sim::ScenarioReport& report);

}  // namespace rrdma::tools
