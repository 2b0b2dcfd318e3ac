// A fault plan: a TOML file for `rrdma run --faults`, `rrdma fault set --plan` and `rrdma lab` that lists the
// faults of a test.
//
//   [[fault]]
//   what = "port=down"          # syntax: faults/rule.h
//   device = "rrdma1"           # selectors, by their names
//   after = "2s"
//   for = "500ms"
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rrdma::tools {

// Returns the rules as lines. The error is a sentence with the position in the file.
[[nodiscard]] Result<std::vector<std::string>, std::string> read_fault_plan(const std::string& path);

}  // namespace rrdma::tools
