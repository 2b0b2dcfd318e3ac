// What programs tell about themselves right now, for the page: counters and queue pairs as `rrdma stat` reads them, and
// the sentences of `rrdma explain` with their remedies. It only reads pages and files that programs publish anyway.
#pragma once

#include <chrono>
#include <string>

namespace rrdma::tools {

class FaultDesk;

class LiveWatch {
 public:
  // Null: nobody may set faults. Outlives the watch.
  explicit LiveWatch(FaultDesk* faults) : faults_(faults) {}

  // One line of JSON: {"time_ns", "stat", "explained": {"en", "zh"}}, with "faults" where they may be set; or
  // {"time_ns", "problem"}.
  [[nodiscard]] std::string look();

 private:
  void read_explained_processes();

  FaultDesk* faults_;
  std::string explained_;  // JSON
  std::chrono::steady_clock::time_point explained_at_{};
};

}  // namespace rrdma::tools
