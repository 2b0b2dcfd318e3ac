// Uplink: the connection manager's access to the NIC: the devices (their identities and addresses) and
// requests to the daemon. The first id that needs an address opens it; it stays open.
//
// A daemon may die between two requests. Each request says which daemon answered, so that the station knows
// when it must repeat its state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "control/cm_messages.h"
#include "host/device.h"
#include "nic/process/runtime.h"
#include "preload/rdma_cm/routing/routes.h"

namespace rrdma::rdma_cm {

class Uplink {
 public:
  using Changes = std::function<void(const host::Device&, host::DeviceEvent)>;

  // Any thread, any number of times. The listener, and everything that `changes` refers to, must live
  // forever.
  Result<void, Problem> open(nic::DaemonListener& daemon, const Changes& changes);
  [[nodiscard]] bool is_open() const { return daemon_.load() != nullptr; }

  // REQUIRES: is_open(), for all of these.
  [[nodiscard]] const DeviceList& devices() const { return devices_; }
  // The device that has this GID; the first one if none has.
  [[nodiscard]] host::Device& device_of(const wire::Gid& local) const {
    return rdma_cm::device_of(devices_, local);
  }
  [[nodiscard]] std::uint32_t daemon_pid() const { return daemon_.load()->welcome().daemon_pid; }
  template <typename Reply, typename Request>
  [[nodiscard]] Result<Reply, Problem> ask(
      const Request& request, control::DaemonClient::Repeat repeat = control::DaemonClient::Repeat::kOnce) {
    return daemon_.load()->request<Reply>(request, repeat);
  }

 private:
  // Forwards the events of one device, with its identity.
  struct Watch final : host::DeviceListener {
    Watch(const host::Device& of, const Changes& to) : device(of), changes(to) {}
    void on_device_event(host::DeviceEvent event) override { changes(device, event); }
    const host::Device& device;
    const Changes changes;
  };

  std::mutex mutex_;
  DeviceList devices_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::atomic<control::DaemonClient*> daemon_{nullptr};
};

}  // namespace rrdma::rdma_cm
