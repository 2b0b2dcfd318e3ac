// Starts Wireshark on a running capture.
#pragma once

#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace rrdma::tools {

// Starts Wireshark, with the RoCE profile if it is installed, and returns the pipe from which it reads
// pcapng. Also ignores SIGPIPE, so that writing to a closed pipe is an error. The error is a sentence.
[[nodiscard]] Result<OwnedFd, std::string> start_wireshark();

}  // namespace rrdma::tools
