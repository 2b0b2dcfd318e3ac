// The options that describe the device to a program, the same for `rrdma run`, `rrdma shell` and `rrdma env`,
// and the environment variables in which they travel (nic/settings.h).
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tools/capture/limit_options.h"

namespace rrdma::tools {

struct DeviceSettings {
  std::string netdev;
  std::uint32_t devices = 0;            // 0: those that there are
  std::vector<std::string> properties;  // rrdma1:speed=200G
  bool private_network = false;         // a network namespace of its own
  std::string link;
  std::string fault;
  std::vector<std::string> faults;  // rules, or the file of a plan
  std::string capture;
  LimitWords capture_limits;
  std::string udp_checksum;
  std::string congestion;  // --cc
  std::string log;
  bool lid = false;
  bool strict = false;  // the wire as it was before probes and repairs
  std::vector<std::string> strict_peers;
  bool only = false;    // hide the devices of the kernel
  bool beside = false;  // list them first
  bool share_memory = false;
};

void add_device_options(CLI::App& command, DeviceSettings& settings);

// A sentence and a hint about the first option that cannot be right.
struct OptionProblem {
  std::string sentence;
  std::string hint;
};
// Makes file names absolute, too.
[[nodiscard]] Result<void, OptionProblem> settle(DeviceSettings& settings);

using Variables = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Variables variables_of(const DeviceSettings& settings);
// All that variables_of may name.
[[nodiscard]] std::vector<std::string> variable_names();

// What is to be loaded into programs; a problem where it is not installed.
[[nodiscard]] Result<std::vector<std::string>, OptionProblem> libraries_of(const DeviceSettings& settings);
// LD_PRELOAD with our libraries in it: behind the `sanitizers` (their runtimes insist on being first), before
// what the user preloads. REQUIRES: no colon in `libraries`.
[[nodiscard]] std::string preload_with(const std::vector<std::string>& libraries,
                                       const std::vector<std::string>& sanitizers);
// LD_PRELOAD as it would be without any library of ours; empty: none.
[[nodiscard]] std::string preload_without();

}  // namespace rrdma::tools
