// The options -s, -c, -C and -W of tcpdump, which bound a capture. Used by `rrdma capture` and by --pcap.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "base/result.h"
#include "link/capture_limits.h"

namespace rrdma::tools {

struct LimitWords {
  std::uint32_t snap_octets = 0;
  std::uint64_t packets = 0;
  std::string file_size;
  std::uint32_t files = 0;
};

void add_limit_options(CLI::App& command, LimitWords& words);
// The error is a sentence about the wrong option.
[[nodiscard]] Result<link::CaptureLimits, std::string> limits_of(const LimitWords& words);

}  // namespace rrdma::tools
