// What programs tell about themselves right now, for the page: counters and queue pairs as `rrdma stat` reads them, and
// the sentences of `rrdma explain` with their remedies. It only reads pages and files that programs publish anyway.
#pragma once

#include <chrono>
#include <string>

namespace rrdma::tools {

class LiveWatch {
 public:
  // One line of JSON: {"time_ns", "stat", "explained": {"en", "zh"}} or {"time_ns", "problem"}.
  [[nodiscard]] std::string look();

 private:
  void read_explained_processes();

  std::string explained_;  // JSON
  std::chrono::steady_clock::time_point explained_at_{};
};

}  // namespace rrdma::tools
