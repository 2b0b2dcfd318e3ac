// Output and clock of test programs: how they fail, the lines that they print for the harness (flushed at
// once), and the time that both share.
#pragma once

#include <cstdint>
#include <string>

namespace proof {

// Prints `what` on stderr and ends the program with status 1.
[[noreturn]] void fail(const std::string& what);
// The same with strerror(errno).
[[noreturn]] void fail_errno(const std::string& what);
// Prints a line for the harness.
void say(const std::string& line);
// CLOCK_MONOTONIC in seconds, as Python's time.monotonic() counts.
[[nodiscard]] double monotonic_seconds();
// CPU time of this process, all threads.
[[nodiscard]] double cpu_seconds();

}  // namespace proof
