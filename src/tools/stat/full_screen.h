// FullScreen: takes over the terminal: alternate screen without a cursor, keys without Enter and without
// echo. The destructor restores the terminal, also after Ctrl-C.
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

  // Queried each time, because the user may resize the terminal.
  [[nodiscard]] static ScreenSize size();
  // Replaces the contents. Returns false if the terminal is gone.
  [[nodiscard]] bool show(std::string_view text);
  // Returns the next key, or nothing after the timeout or a signal. Keys that move are the control characters
  // below; a function key is 0.
  static constexpr char kKeyUp = 0x10, kKeyDown = 0x0e, kKeyPageUp = 0x02, kKeyPageDown = 0x06,
                        kKeyHome = 0x01, kKeyEnd = 0x05;
  [[nodiscard]] std::optional<char> key(int timeout_ms);
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  termios before_{};
  bool gone_ = false;
  std::string typed_;  // keys read together with a returned one
};

}  // namespace rrdma::tools
