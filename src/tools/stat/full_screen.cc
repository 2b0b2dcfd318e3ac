#include "tools/stat/full_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace rrdma::tools {
namespace {

// Switch to the alternate screen, hide the cursor, and cut long lines instead of wrapping them.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

FullScreen::FullScreen() {
  ::tcgetattr(STDIN_FILENO, &before_);
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VMIN] = 1;
  keys.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &keys);
  gone_ = !write_all(kEnter);
}

FullScreen::~FullScreen() {
  (void)write_all(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

ScreenSize FullScreen::size() {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) return {};
  return {window.ws_col, window.ws_row};
}

bool FullScreen::show(std::string_view text) {
  // Overwrite line by line: clearing the whole screen first would flicker.
  std::string frame(kHome);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    // Clear first: after a line that fills the screen, the cursor is still on its last character.
    frame += kClearLine;
    frame += text.substr(0, end);
    if (end == std::string_view::npos) break;
    frame += "\r\n";
    text.remove_prefix(end + 1);
  }
  frame += kClearBelow;
  gone_ = gone_ || !write_all(frame);
  return !gone_;
}

std::optional<char> FullScreen::key(int timeout_ms) {
  if (typed_.empty()) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, timeout_ms) <= 0) return std::nullopt;
    char letters[64];
    const ssize_t count = ::read(STDIN_FILENO, letters, sizeof letters);
    if (count <= 0) {
      gone_ = gone_ || count == 0 || errno != EINTR;
      return std::nullopt;
    }
    typed_.assign(letters, static_cast<std::size_t>(count));
  }
  const bool sequence = typed_.size() > 1 && typed_[0] == '\x1b' && (typed_[1] == '[' || typed_[1] == 'O');
  if (!sequence) {
    const char first = typed_[0];
    typed_.erase(0, 1);
    return first;
  }
  // ESC [ parameters final: several keys may have been read together.
  std::size_t end = 2;
  while (end < typed_.size() && (typed_[end] < '@' || typed_[end] > '~')) ++end;
  const std::string keys = typed_.substr(2, end - 1);
  typed_.erase(0, std::min(typed_.size(), end + 1));
  constexpr std::pair<std::string_view, char> kMoves[] = {
      {"A", kKeyUp},   {"B", kKeyDown}, {"5~", kKeyPageUp}, {"6~", kKeyPageDown},
      {"H", kKeyHome}, {"F", kKeyEnd},  {"1~", kKeyHome},   {"4~", kKeyEnd}};
  for (const auto& [name, move] : kMoves)
    if (keys == name) return move;
  return '\0';
}

}  // namespace rrdma::tools
