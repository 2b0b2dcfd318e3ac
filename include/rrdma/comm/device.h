// Device: which RDMA devices there are and what they can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rrdma/comm/error.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

// A device that rdma_cm can use, as it was when it was asked.
struct RRDMA_COMM_API Device {
  std::string name;
  std::vector<std::string> addresses;  // IPv4 and IPv6, of its ports
  bool active = false;                 // a port is up
  std::uint32_t mtu = 0;               // octets of a packet's payload, of the first active port
  std::uint32_t max_queue_depth = 0;
  std::uint32_t max_completions = 0;
  std::uint32_t max_reads = 0;  // under way at a time on one connection
  bool atomics = false;
  bool shared_receive_queues = false;
  bool memory_windows = false;

  // All of them; kNoDevice when there is none.
  static Result<std::vector<Device>> all();
  static Result<Device> named(const std::string& name);
  // The one that has this address.
  static Result<Device> with_address(const std::string& address);
  // The one through which "host:port" or "host" is reached.
  static Result<Device> toward(const std::string& address);
};

}  // namespace v0
}  // namespace rrdma::comm
