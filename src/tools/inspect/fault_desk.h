// Faults on purpose, asked for by the page (`rrdma inspect --allow-faults`): the words of `rrdma fault`, given to that very
// command, so that there is one place that knows them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace rrdma::tools {

// The arguments of `rrdma fault` in these words: "set port=down for=2s", "clear 3". The reason instead, when they are
// something else: options, which could name files, are not for a page.
struct FaultOrder {
  std::vector<std::string> arguments;  // empty: refused
  std::string reason;
};
[[nodiscard]] FaultOrder fault_order(std::string_view words);

class FaultDesk {
 public:
  // One line of JSON: {"done": bool, "text": what the command said}.
  [[nodiscard]] std::string order(std::string_view words);
  // Those that are set, as `rrdma fault list --json` tells them; asked for once a second at most.
  [[nodiscard]] const std::string& list();

 private:
  std::string list_ = "[]";
  std::chrono::steady_clock::time_point listed_at_{};
};

}  // namespace rrdma::tools
