// Wireshark as a window on a capture that goes on.
#pragma once

#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace rrdma::tools {

// Starts it, with the profile for RoCE where that is installed, and returns the pipe that it reads pcapng from. From
// now on a write to a pipe that nobody reads is an error, not the end of the process. The error is a sentence.
[[nodiscard]] Result<OwnedFd, std::string> start_wireshark();

}  // namespace rrdma::tools
