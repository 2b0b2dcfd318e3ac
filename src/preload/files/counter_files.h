// The counter files of a port, below ports/1/: their names and content. The names are the kernel's: those of
// hardware in counters/, those of soft RoCE and of common NICs in hw_counters/. A counter that cannot be
// answered truthfully has no file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/messages.h"

namespace rrdma::files {

// All paths, such as counters/port_xmit_data.
[[nodiscard]] std::vector<std::string> counter_paths();
// The line of a file, for a device with these counts. REQUIRES: one of counter_paths().
[[nodiscard]] std::string counter_line(std::string_view path,
                                       const std::vector<control::NamedCounter>& counted);

// A path that leads to such files: a file, or a folder of them.
struct CounterPlace {
  std::string port;     // the path of ports/1
  std::string device;   // rrdma0
  std::string content;  // below the port: counters, or counters/port_xmit_data
};
[[nodiscard]] std::optional<CounterPlace> counter_place(std::string_view path);

// Writes the current counts into the files of that place below the root of a tree. They include all programs
// of this user, as far as the daemon knows them. If it does not answer, the files stay unchanged.
void refresh_counters(const std::string& root, const CounterPlace& place);

}  // namespace rrdma::files
