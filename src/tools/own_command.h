// Runs this executable again with other words: `rrdma fault set …` from a full screen or from a page. Also
// runs other programs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace rrdma::tools {

struct OwnCommandResult {
  bool done = false;  // exit status 0
  std::string text;   // standard output and standard error
};

// Waits for the end of the command, and kills it after the timeout. `words` follow "rrdma".
[[nodiscard]] OwnCommandResult run_own_command(const std::vector<std::string>& words,
                                               std::chrono::milliseconds timeout);

// The same for a program found in PATH, with its standard output only.
[[nodiscard]] OwnCommandResult run_program(const std::vector<std::string>& words,
                                           std::chrono::milliseconds timeout);

// Starts the command without any output. -1 on failure. The caller waits for the child.
[[nodiscard]] pid_t start_own_command(const std::vector<std::string>& words);

}  // namespace rrdma::tools
