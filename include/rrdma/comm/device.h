// Device: lists the RDMA devices and their capabilities.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rrdma/comm/error.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

// A device that rdma_cm can use. A snapshot of the time of the query.
struct RRDMA_COMM_API Device {
  std::string name;
  std::vector<std::string> addresses;  // IPv4 and IPv6 addresses of its ports
  bool active = false;                 // at least one port is up
  std::uint32_t mtu = 0;               // payload bytes of a packet, for the first active port
  std::uint32_t max_queue_depth = 0;
  std::uint32_t max_completions = 0;
  std::uint32_t max_reads = 0;  // reads in flight at a time on one connection
  bool atomics = false;
  bool shared_receive_queues = false;
  bool memory_windows = false;
  bool software = false;  // RRDMA's own device, in this process

  // Lists all devices. Fails with kNoDevice if there is none. Without hardware, brings up RRDMA's device, as
  // ContextOptions::software_device describes; so do the other functions.
  static Result<std::vector<Device>> all();
  static Result<Device> named(const std::string& name);
  // Finds the device that has this address.
  static Result<Device> with_address(const std::string& address);
  // Finds the device that routes to "host:port" or "host".
  static Result<Device> toward(const std::string& address);
};

namespace detail {
// Tells RRDMA the path of an rpc method, which captures record: calls contain only its hash. Other devices
// have no use for it. REQUIRES: a Context was created.
RRDMA_COMM_API void name_method(const char* path);
}  // namespace detail

}  // namespace v0
}  // namespace rrdma::comm
