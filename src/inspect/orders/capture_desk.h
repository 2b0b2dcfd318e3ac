// Captures that the live page orders (`rrdma inspect --allow-faults`): a few seconds of one program's
// packets, shown as a report of its own. `rrdma capture` writes the packets; the files are removed with the
// desk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rrdma::tools {

class CaptureDesk {
 public:
  static constexpr std::size_t kCapturesMax = 32;
  static constexpr int kSeconds = 3;

  CaptureDesk() = default;
  ~CaptureDesk();
  CaptureDesk(const CaptureDesk&) = delete;
  CaptureDesk& operator=(const CaptureDesk&) = delete;

  // Starts to capture a process, which takes kSeconds. One line of JSON: {"done": bool, "text": reason}.
  [[nodiscard]] std::string order(std::string_view pid);
  // [{"number": 1, "pid": 12, "state": "running" | "ready" | "failed"} …]
  [[nodiscard]] std::string list();
  // The report of a capture that is ready; empty: there is none.
  [[nodiscard]] std::string page(std::uint32_t number);

 private:
  enum class State : std::uint8_t { kRunning, kReady, kFailed };
  struct Ordered {
    pid_t pid = 0;
    pid_t child = -1;
    std::string file;
    State state = State::kRunning;
  };
  void look();

  std::string folder_;
  std::vector<Ordered> ordered_;  // number - 1 is the index
};

}  // namespace rrdma::tools
