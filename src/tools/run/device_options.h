// The device options shared by `rrdma run`, `rrdma shell` and `rrdma env`, and the environment variables that
// carry them (nic/settings.h).
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
  std::uint32_t devices = 0;            // 0: the existing ones
  std::vector<std::string> properties;  // rrdma1:speed=200G
  bool private_network = false;         // in a separate network namespace
  std::string link;
  std::string fault;
  std::vector<std::string> faults;  // rules, or the file of a plan
  std::string capture;
  bool append = false;  // keep the packets that the capture file holds already
  LimitWords capture_limits;
  std::string udp_checksum;
  std::string congestion;  // --cc
  std::string log;
  bool explain = false;  // always say at the end of a program what failed
  bool quiet = false;    // never say it
  bool lid = false;
  bool strict = false;  // the wire format without probes and repairs
  std::vector<std::string> strict_peers;
  bool only = false;    // hide the kernel's devices
  bool beside = false;  // list the kernel's devices first
  bool share_memory = false;
};

void add_device_options(CLI::App& command, DeviceSettings& settings);

// A sentence and a hint about the first wrong option.
struct OptionProblem {
  std::string sentence;
  std::string hint;
};
// Validates the settings and makes file names absolute.
[[nodiscard]] Result<void, OptionProblem> settle(DeviceSettings& settings);

// Empties the capture file, unless it is to be kept or another program writes it. REQUIRES: settle()
// succeeded.
[[nodiscard]] Result<void, OptionProblem> prepare_capture(const DeviceSettings& settings);

using Variables = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Variables variables_of(const DeviceSettings& settings);
// All names that variables_of may return.
[[nodiscard]] std::vector<std::string> variable_names();

// The libraries to load into programs. Fails if they are not installed.
[[nodiscard]] Result<std::vector<std::string>, OptionProblem> libraries_of(const DeviceSettings& settings);
// LD_PRELOAD with our libraries: after `sanitizers`, whose runtimes must be first, and before the user's own
// entries. REQUIRES: no colon in `libraries`.
[[nodiscard]] std::string preload_with(const std::vector<std::string>& libraries,
                                       const std::vector<std::string>& sanitizers);
// LD_PRELOAD without any library of ours. May be empty.
[[nodiscard]] std::string preload_without();

}  // namespace rrdma::tools
