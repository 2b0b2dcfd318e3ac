// A plan of faults: a TOML file for `rrdma run --faults`, `rrdma fault set --plan` and `rrdma lab`, so that a test says once
// what goes wrong and when.
//
//   [[fault]]
//   what = "port=down"          # as faults/rule.h says
//   device = "rrdma1"           # selectors, by their names
//   after = "2s"
//   for = "500ms"
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rrdma::tools {

// The rules as lines. The error is a sentence with the place in the file.
[[nodiscard]] Result<std::vector<std::string>, std::string> read_fault_plan(const std::string& path);

}  // namespace rrdma::tools
