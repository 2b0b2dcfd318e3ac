// How a test program ends when something is wrong, what it says to the harness on its way (one line each,
// at once), and the time that both count by.
#pragma once

#include <cstdint>
#include <string>

namespace proof {

// Says it on stderr and ends the program with status 1.
[[noreturn]] void fail(const std::string& what);
// The same with strerror(errno).
[[noreturn]] void fail_errno(const std::string& what);
// A line for the harness.
void say(const std::string& line);
// CLOCK_MONOTONIC in seconds, as Python's time.monotonic() counts.
[[nodiscard]] double monotonic_seconds();
// CPU time of this process, all threads.
[[nodiscard]] double cpu_seconds();

}  // namespace proof
