// Output of the subcommands: errors in a uniform format, colours only on terminals, and detection of write
// errors.
#pragma once

#include <string>
#include <string_view>

#include "dissection/printer.h"

namespace rrdma::tools {

// Writes "COMMAND: SENTENCE" to standard error, and the hint on a second line if there is one. Returns
// kExitFailure, so that a command can end with `return complain(…)`.
int complain(std::string_view command, std::string_view sentence, std::string_view hint);

enum class ColourChoice { kAuto, kAlways, kNever };
// Converts "auto", "always" or "never"; any other word is "auto".
[[nodiscard]] ColourChoice colour_choice(std::string_view word);

[[nodiscard]] bool is_terminal(int descriptor);

// The width of the terminal. If it is not a terminal, or the width is unknown, a number that no line exceeds.
[[nodiscard]] std::size_t terminal_columns(int descriptor);

// kAuto: colours if the descriptor is a terminal that is not "dumb", and NO_COLOR is not set.
[[nodiscard]] wire::Palette palette_for(int descriptor, ColourChoice choice);

// Escapes control characters in foreign text (comments of a capture, names), so that it cannot control the
// terminal.
[[nodiscard]] std::string printable(std::string_view text);

// Standard output, written in large pieces that end with a line. If the reader of a pipe is gone, SIGPIPE
// ends the process, as with other commands.
class Output {
 public:
  void write(std::string_view text);
  // Returns 0, or the errno of the first failed write. Output after a failure is discarded.
  [[nodiscard]] int flush();

 private:
  static constexpr std::size_t kPieceOctets = 32768;
  std::string waiting_;
  int error_ = 0;
};

}  // namespace rrdma::tools
