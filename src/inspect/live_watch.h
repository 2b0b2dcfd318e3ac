// The state of running programs for the page: counters and queue pairs as in `rrdma stat`, and the sentences
// of `rrdma explain` with their remedies. It only reads data that programs publish anyway.
#pragma once

#include <chrono>
#include <string>

namespace rrdma::tools {

class FaultDesk;

class LiveWatch {
 public:
  // Null if fault injection is not allowed. Must outlive the watch.
  explicit LiveWatch(FaultDesk* faults) : faults_(faults) {}

  // One line of JSON: {"time_ns", "stat", "explained": {"en", "zh"}}, with "faults" if they are allowed; or
  // {"time_ns", "problem"}.
  [[nodiscard]] std::string look();

 private:
  void read_explained_processes();

  FaultDesk* faults_;
  std::string explained_;  // JSON
  std::chrono::steady_clock::time_point explained_at_{};
};

}  // namespace rrdma::tools
