// Fault plans (fault_plan.h) in a simulated world: the same syntax, in virtual time, so that a run can be
// repeated packet by packet. Hosts are h0, h1, … (`device`), their addresses 10.0.0.1, 10.0.0.2, … (`peer`).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/plan.h"

namespace rrdma::tools {

// Each word is a rule or the name of a fault plan. The error is a sentence.
[[nodiscard]] Result<void, std::string> add_faults(const std::vector<std::string>& words, sim::Plan& plan);
// The additional lifetime of packets with these faults; also for `--fault`.
[[nodiscard]] Duration added_lifetime(const link::FaultSpec& faults);
// Whether connections may end because of them.
[[nodiscard]] bool is_harsh(const link::FaultSpec& faults);

}  // namespace rrdma::tools
