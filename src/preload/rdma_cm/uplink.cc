#include "preload/rdma_cm/uplink.h"

#include <cerrno>

namespace rrdma::rdma_cm {

Result<void, Problem> Uplink::open(nic::DaemonListener& daemon, host::DeviceListener& changes) {
  const std::lock_guard lock(mutex_);
  if (is_open()) return {};
  nic::Runtime& runtime = nic::Runtime::instance();
  const auto devices = runtime.devices();
  if (devices.empty()) return problem(ENODEV, "there is no RRDMA device in this network namespace.");
  auto device = runtime.open(devices.front().name);
  if (!device) return Failure{device.error()};
  device_ = std::move(*device);
  runtime.set_daemon_listener(&daemon);
  daemon_.store(&runtime.daemon());
  device_->add_listener(changes);
  return {};
}

}  // namespace rrdma::rdma_cm
