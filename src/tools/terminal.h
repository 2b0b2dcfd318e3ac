// What the subcommands share when they talk to people: complaints in one form, colours only where a
// terminal shows them, and output whose failure is noticed.
#pragma once

#include <string>
#include <string_view>

#include "wire/printer.h"

namespace rrdma::tools {

// Writes "COMMAND: SENTENCE" and, where there is one, a second line with the hint to standard error.
// Returns kExitFailure, so that a command can end with `return complain(…)`.
int complain(std::string_view command, std::string_view sentence, std::string_view hint);

enum class ColourChoice { kAuto, kAlways, kNever };
// Of the words "auto", "always", "never"; what else it may be is "auto".
[[nodiscard]] ColourChoice colour_choice(std::string_view word);

[[nodiscard]] bool is_terminal(int descriptor);

// Columns of the terminal; where it is none, or does not tell, a number that nothing exceeds.
[[nodiscard]] std::size_t terminal_columns(int descriptor);

// kAuto: colours if the descriptor is a terminal that is not "dumb", and NO_COLOR is not set.
[[nodiscard]] wire::Palette palette_for(int descriptor, ColourChoice choice);

// Text of others (comments of a capture, names) with control characters made visible, so that it
// cannot play with the terminal.
[[nodiscard]] std::string printable(std::string_view text);

// Standard output, written in large pieces that end with a line. A pipe whose reader went away ends the
// process by SIGPIPE, as with other commands.
class Output {
 public:
  void write(std::string_view text);
  // Returns 0, or the errno of the first write that failed; what follows a failure is thrown away.
  [[nodiscard]] int flush();

 private:
  static constexpr std::size_t kPieceOctets = 32768;
  std::string waiting_;
  int error_ = 0;
};

}  // namespace rrdma::tools
