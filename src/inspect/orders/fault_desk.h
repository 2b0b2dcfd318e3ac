// Fault injection from the page (`rrdma inspect --allow-faults`). The words are passed to the `rrdma fault`
// command, which alone knows the syntax.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace rrdma::tools {

// Splits words such as "set port=down for=2s" or "clear 3" into arguments of `rrdma fault`. Refuses anything
// else with a reason: options could name files, and a page must not use those.
struct FaultOrder {
  std::vector<std::string> arguments;  // empty: refused
  std::string reason;
};
[[nodiscard]] FaultOrder fault_order(std::string_view words);

class FaultDesk {
 public:
  // One line of JSON: {"done": bool, "text": output of the command}.
  [[nodiscard]] std::string order(std::string_view words);
  // The current rules, as `rrdma fault list --json` prints them. Queried at most once a second.
  [[nodiscard]] const std::string& list();

 private:
  std::string list_ = "[]";
  std::chrono::steady_clock::time_point listed_at_{};
};

}  // namespace rrdma::tools
