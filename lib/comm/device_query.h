// Finds the devices that librdmacm can use, and their limits. librdmacm opens each device once for the whole
// process, and connection ids refer to that device context. Contexts therefore use it as well.
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

// Finds a device by name. An empty name selects the first device with an active port. `software`: see
// ContextOptions::software_device.
Result<FoundDevice> find_device(const std::string& name, bool software);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
