#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/format.h"
#include "base/visible_text.h"
#include "tools/exit_status.h"

namespace rrdma::tools {
namespace {

constexpr std::size_t kColumnsUnlimited = 1000;

}  // namespace

int complain(std::string_view command, std::string_view sentence, std::string_view hint) {
  std::string text = formatted("{}: {}\n", command, sentence);
  if (!hint.empty()) text += formatted("{}: {}\n", command, hint);
  // Use a single call, so that the lines of two commands on one terminal do not mix. A failure cannot be
  // reported.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  return kExitFailure;
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  const bool known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kColumnsUnlimited;
}

ColourChoice colour_choice(std::string_view word) {
  if (word == "always") return ColourChoice::kAlways;
  return word == "never" ? ColourChoice::kNever : ColourChoice::kAuto;
}

wire::Palette palette_for(int descriptor, ColourChoice choice) {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  const bool automatic = is_terminal(descriptor) && !dumb && !set("NO_COLOR");
  if (choice == ColourChoice::kNever || (choice == ColourChoice::kAuto && !automatic)) return {};
  return {.name = "\x1b[1m",
          .good = "\x1b[32m",
          .alert = "\x1b[33m",
          .bad = "\x1b[1;31m",
          .faint = "\x1b[2m",
          .reset = "\x1b[0m"};
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = visible_octets(text);
    if (size == 0) {
      shown += formatted("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      shown += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return shown;
}

void Output::write(std::string_view text) {
  waiting_ += text;
  if (waiting_.size() >= kPieceOctets) (void)flush();
}

int Output::flush() {
  std::string_view rest = waiting_;
  while (error_ == 0 && !rest.empty()) {
    const auto written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  waiting_.clear();
  return error_;
}

}  // namespace rrdma::tools
