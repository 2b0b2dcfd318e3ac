// CaptureLimits: how much traffic a capture keeps, like tcpdump's -s, -c, -C and -W. Programs receive the
// limits in one environment variable, RRDMA_PCAP_LIMITS:
//
//   limits := item { "," item }
//   item   := ("snap" | "count" | "size" | "files") "=" number        bytes, packets, bytes, files
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rrdma::link {

struct CaptureLimits {
  std::uint32_t snap_octets = 0;  // of each packet; 0: all
  std::uint64_t packets_max = 0;  // then the capture ends; 0: no limit
  std::uint64_t file_octets = 0;  // then the next file begins; 0: one file
  std::uint32_t files_max = 0;    // then the first is reused; 0: no limit
  [[nodiscard]] bool any() const { return *this != CaptureLimits{}; }
  friend bool operator==(const CaptureLimits&, const CaptureLimits&) = default;
};

// An error is one sentence. Empty text means no limits.
Result<CaptureLimits, std::string> parse_capture_limits(std::string_view text);
// parse_capture_limits() reads the result back to the same value.
std::string emit_capture_limits(const CaptureLimits& limits);

}  // namespace rrdma::link
