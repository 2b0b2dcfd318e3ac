// The state of running programs for the page: counters and queue pairs as in `rrdma stat`, and the sentences
// of `rrdma explain` with their remedies. It only reads data that programs publish anyway.
#pragma once

#include <chrono>
#include <string>

namespace rrdma::tools {

class CaptureDesk;
class FaultDesk;

class LiveWatch {
 public:
  // Null if fault injection and captures are not allowed. Must outlive the watch.
  LiveWatch(FaultDesk* faults, CaptureDesk* captures) : faults_(faults), captures_(captures) {}

  // One line of JSON: {"time_ns", "stat", "explained": {"en", "zh"}}, with "faults" and "captures" if they
  // are allowed; or {"time_ns", "problem"}.
  [[nodiscard]] std::string look();

 private:
  void read_explained_processes();

  FaultDesk* faults_;
  CaptureDesk* captures_;
  std::string explained_;  // JSON
  std::chrono::steady_clock::time_point explained_at_{};
};

}  // namespace rrdma::tools
