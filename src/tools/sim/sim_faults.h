// Plans of faults (fault_plan.h) in a simulated world: the same words, in virtual time, so that a run can be had again packet
// by packet. Hosts are h0, h1 and on (`device`), their addresses 10.0.0.1, 10.0.0.2 and on (`peer`).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/plan.h"

namespace rrdma::tools {

// Each word is a fault or the name of a file of them. The error is a sentence.
[[nodiscard]] Result<void, std::string> add_faults(const std::vector<std::string>& words, sim::Plan& plan);
// How much longer packets live with these faults, for `--fault` as well.
[[nodiscard]] Duration added_lifetime(const link::FaultSpec& faults);
// Whether connections may end by them.
[[nodiscard]] bool is_harsh(const link::FaultSpec& faults);

}  // namespace rrdma::tools
