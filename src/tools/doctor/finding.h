// Finding: one line of `rrdma doctor`: the subject, its health and, for a problem, the remedy. Each check
// returns one or more findings. No check changes anything on the host.
#pragma once

#include <string>
#include <vector>

#include "tools/devices/local_devices.h"

namespace rrdma::tools {

enum class Health : std::uint8_t {
  kOk,
  kWarn,  // works, but slower or with restrictions
  kBad,   // does not work
};

struct Finding {
  Health health = Health::kOk;
  std::string subject;  // "port 4791"
  std::string sentence;
  std::string remedy;  // empty if there is no problem
};

// The host: kernel, system calls, limits.
Finding check_kernel();
Finding check_library();
Finding check_io_uring();
Finding check_segmentation();
Finding check_steering();
Finding check_receive_buffer();
Finding check_send_buffer();
Finding check_descriptor_limit();
Finding check_direct_access();

// The network: the owner of the port, and the properties of the interface.
std::vector<Finding> check_port_and_daemon();
Finding check_addresses(const LocalDevice& device);
Finding check_mtu(const LocalDevice& device);
Finding check_kernel_devices();

// NCCL: the settings in the environment that decide whether it uses the device, and GPUDirect RDMA.
std::vector<Finding> check_nccl();

// A program: whether the library can be loaded into it.
Finding check_program(const std::string& name);

// A peer: whether its host answers on UDP port 4791. Takes at most a few seconds. Starts the daemon if
// necessary, because only the daemon can receive the answer.
Finding check_peer(const std::string& address);

}  // namespace rrdma::tools
