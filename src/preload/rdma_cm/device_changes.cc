// Handles device changes for ids. The interface loses an address or gets another MAC address (ADDR_CHANGE, a
// hint: the id stays as it is), or is gone (DEVICE_REMOVAL: only rdma_destroy_id works on the id, as in the
// kernel). All of it runs on the NIC's background thread.
#include "host/explain.h"
#include "preload/rdma_cm/routing/routes.h"
#include "preload/rdma_cm/station.h"

namespace rrdma::rdma_cm {

namespace {

bool uses(const Identifier& id, const host::Device& device) {
  return id.device == &device && !id.destroyed && id.state != IdState::kIdle && id.state != IdState::kRemoved;
}

}  // namespace

void Station::handle_device_event(const host::Device& device, host::DeviceEvent event) {
  switch (event) {
    case host::DeviceEvent::kGidChange: return report_lost_addresses(device);
    case host::DeviceEvent::kHardwareAddressChange: return report_hardware_address(device);
    case host::DeviceEvent::kRemoved: return remove_device(device);
    case host::DeviceEvent::kPortActive:
    case host::DeviceEvent::kPortError: return;  // connections survive it
  }
}

void Station::report_lost_addresses(const host::Device& device) {
  const std::lock_guard lock(mutex_);
  for (const IdPointer& id : ids_) {
    if (id == nullptr || !uses(*id, device) || id->route.local.is_zero()) continue;
    const bool lost = !gid_index_for(device, id->route.local, id->route.remote);
    // Once for each loss; an address that returns may be lost again.
    if (std::exchange(id->address_lost, lost) || !lost || id->uid == 0) continue;
    host::explain(host::Severity::kInfo, "rdma_cm",
                  "the interface lost the address " + text_of(address_of_gid(id->route.local, 0)) +
                      ", which an id is bound to.");
    push(event_for(id, EventKind::kAddressChange));
  }
}

void Station::report_hardware_address(const host::Device& device) {
  const std::lock_guard lock(mutex_);
  for (const IdPointer& id : ids_) {
    if (id != nullptr && uses(*id, device) && id->uid != 0) push(event_for(id, EventKind::kAddressChange));
  }
}

void Station::remove_device(const host::Device& device) {
  std::vector<IdPointer> removed;
  {
    const std::lock_guard lock(mutex_);
    for (const IdPointer& id : ids_) {
      if (id == nullptr || !uses(*id, device)) continue;
      id->state = IdState::kRemoved;
      id->half_open = false;
      by_connection_.erase(id->connection.value);
      removed.push_back(id);
      // A request that the program has not accepted has no uid to report.
      if (id->uid != 0) push(event_for(id, EventKind::kDeviceRemoval));
    }
  }
  host::explain(host::Severity::kError, "rdma_cm",
                "the network interface of the device is gone: close the device and open another.");
  bury(removed);
}

}  // namespace rrdma::rdma_cm
