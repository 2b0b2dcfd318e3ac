// Which devices librdmacm can use, and what they can do. librdmacm opens each device once for the whole process and connection
// ids refer to that opening, so contexts stand on it as well.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "rrdma/comm/device.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

struct FoundDevice {
  ibv_context* verbs;
  ibv_device_attr limits;
  Device device;
};

// By name; empty: the first one with an active port.
Result<FoundDevice> find_device(const std::string& name);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
