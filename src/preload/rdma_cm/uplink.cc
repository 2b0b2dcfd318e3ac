#include "preload/rdma_cm/uplink.h"

#include <cerrno>

#include "base/result_try.h"
#include "host/explain.h"

namespace rrdma::rdma_cm {

Result<void, Problem> Uplink::open(nic::DaemonListener& daemon, const Changes& changes) {
  const std::lock_guard lock(mutex_);
  if (is_open()) return {};
  nic::Runtime& runtime = nic::Runtime::instance();
  const auto found = runtime.devices();
  RRDMA_TRY(found);
  if (found->empty()) return problem(ENODEV, "there is no RRDMA device in this network namespace.");
  DeviceList opened;
  for (const host::DeviceIdentity& identity : *found) {
    auto device = runtime.open(identity.name);
    if (device) {
      opened.push_back(std::move(*device));
    } else if (opened.empty()) {
      return Failure{device.error()};
    } else {
      host::explain(host::Severity::kError, "rdma_cm", identity.name + ": " + device.error().sentence);
    }
  }
  devices_ = std::move(opened);
  runtime.set_daemon_listener(&daemon);
  daemon_.store(&runtime.daemon());
  for (const auto& device : devices_) {
    watches_.push_back(std::make_unique<Watch>(*device, changes));
    device->add_listener(*watches_.back());
  }
  return {};
}

}  // namespace rrdma::rdma_cm
