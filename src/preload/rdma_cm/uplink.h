// Uplink: what the connection manager's door needs of the NIC: the device (its identity, its addresses) and
// requests to the daemon. Opened by the first id that needs an address; stays open.
//
// A daemon may die between two requests. Each request tells which daemon answered it, so that the
// station notices that what the last one knew has to be said again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "control/cm_messages.h"
#include "host/device.h"
#include "nic/runtime.h"

namespace rrdma::rdma_cm {

class Uplink {
 public:
  // Any thread, any number of times. The listeners must live for ever.
  Result<void, Problem> open(nic::DaemonListener& daemon, host::DeviceListener& changes);
  [[nodiscard]] bool is_open() const { return daemon_.load() != nullptr; }

  // REQUIRES: is_open(), for all of these.
  [[nodiscard]] host::Device& device() const { return *device_; }
  [[nodiscard]] std::uint32_t daemon_pid() const { return daemon_.load()->welcome().daemon_pid; }
  template <typename Reply, typename Request>
  [[nodiscard]] Result<Reply, Problem> ask(
      const Request& request, control::DaemonClient::Repeat repeat = control::DaemonClient::Repeat::kOnce) {
    return daemon_.load()->request<Reply>(request, repeat);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<host::Device> device_;
  std::atomic<control::DaemonClient*> daemon_{nullptr};
};

}  // namespace rrdma::rdma_cm
