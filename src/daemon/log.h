// The daemon's log: lines on standard error. For a unit this is the journal. A daemon that a program started
// has none, unless RRDMA_DAEMON_LOG names a file.
#pragma once

#include <string>

namespace rrdma::daemon {

// Appends to the file from now on, instead of standard error.
void log_to_file(const char* path);
void log_line(const std::string& sentence);

}  // namespace rrdma::daemon
