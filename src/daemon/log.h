// What the daemon says: lines on standard error, which is the journal for a unit and nothing for a daemon
// that a program started (RRDMA_DAEMON_LOG names a file for it).
#pragma once

#include <string>

namespace rrdma::daemon {

// Appends to the file from now on, instead of standard error.
void log_to_file(const char* path);
void log_line(const std::string& sentence);

}  // namespace rrdma::daemon
