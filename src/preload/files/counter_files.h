// The counter files of a port, below ports/1/: which there are, and what they say. Names are those of the kernel: of
// hardware in counters/, of its soft RoCE device and of common NICs in hw_counters/. A file that nobody could answer
// truly is not there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/messages.h"

namespace rrdma::files {

// All paths, such as counters/port_xmit_data.
[[nodiscard]] std::vector<std::string> counter_paths();
// The line of a file, for a device that has counted this much. REQUIRES: one of counter_paths().
[[nodiscard]] std::string counter_line(std::string_view path,
                                       const std::vector<control::NamedCounter>& counted);

// A path that leads to such files: one, or a folder of them.
struct CounterPlace {
  std::string port;     // the path of ports/1
  std::string device;   // rrdma0
  std::string content;  // below the port: counters, or counters/port_xmit_data
};
[[nodiscard]] std::optional<CounterPlace> counter_place(std::string_view path);

// Writes the files of that place below the root of a tree, as the device counts now: for all programs of this user, as far
// as the daemon knows; where it does not answer, they stay as they were.
void refresh_counters(const std::string& root, const CounterPlace& place);

}  // namespace rrdma::files
