// CaptureLimits: how much of the traffic a capture keeps, as tcpdump's -s, -c, -C and -W. Within a program they
// travel in one environment variable, RRDMA_PCAP_LIMITS:
//
//   limits := item { "," item }
//   item   := ("snap" | "count" | "size" | "files") "=" number        octets, packets, octets, files
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rrdma::link {

struct CaptureLimits {
  std::uint32_t snap_octets = 0;  // of each packet; 0: all
  std::uint64_t packets_max = 0;  // then it is over; 0: no end
  std::uint64_t file_octets = 0;  // then the next file; 0: one file
  std::uint32_t files_max = 0;    // then the first one again; 0: ever more
  [[nodiscard]] bool any() const { return *this != CaptureLimits{}; }
  friend bool operator==(const CaptureLimits&, const CaptureLimits&) = default;
};

// An error is one sentence. The empty text is "no limits".
Result<CaptureLimits, std::string> parse_capture_limits(std::string_view text);
// What parse_capture_limits() reads back to the same value.
std::string emit_capture_limits(const CaptureLimits& limits);

}  // namespace rrdma::link
