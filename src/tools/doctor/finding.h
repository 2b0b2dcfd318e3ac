// Finding: one line of `rrdma doctor`: what was looked at, how it is, and, where it is not well, what to do
// about it. Each check below makes one or more; none changes anything on the machine.
#pragma once

#include <string>
#include <vector>

#include "tools/devices/local_devices.h"

namespace rrdma::tools {

enum class Health : std::uint8_t {
  kOk,
  kWarn,  // works, but slower or not in every way
  kBad,   // does not work
};

struct Finding {
  Health health = Health::kOk;
  std::string subject;  // "port 4791"
  std::string sentence;
  std::string remedy;  // empty if all is well
};

// The machine: kernel, system calls, limits.
Finding check_kernel();
Finding check_library();
Finding check_io_uring();
Finding check_segmentation();
Finding check_steering();
Finding check_receive_buffer();
Finding check_send_buffer();
Finding check_descriptor_limit();
Finding check_direct_access();

// The network: who holds the port, and what the interface gives.
std::vector<Finding> check_port_and_daemon();
Finding check_addresses(const LocalDevice& device);
Finding check_mtu(const LocalDevice& device);
Finding check_kernel_devices();

// A program: can the library be loaded into it?
Finding check_program(const std::string& name);

// A peer: does its host answer on UDP port 4791? Takes a few seconds at most; starts the daemon if there
// is none, because only the daemon can hear the answer.
Finding check_peer(const std::string& address);

}  // namespace rrdma::tools
