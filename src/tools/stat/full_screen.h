// FullScreen: the terminal while a command fills it: the alternate screen without a cursor, keys that come
// without Enter and without echo. Everything is as it was when this goes, also after Ctrl-C.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>

#include "tools/stat/top_report.h"

namespace rrdma::tools {

class FullScreen {
 public:
  // REQUIRES: standard input and output are terminals, and watch_interrupts() was called.
  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Asked anew each time: the user may change it.
  [[nodiscard]] static ScreenSize size();
  // Replaces what is shown; false when the terminal is gone.
  [[nodiscard]] bool show(std::string_view text);
  // The next key, or nothing when the time is over or a signal came. An arrow or function key is 0.
  [[nodiscard]] std::optional<char> key(int timeout_ms);
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  termios before_{};
  bool gone_ = false;
  std::string typed_;  // keys that came together with one that was given out
};

}  // namespace rrdma::tools
