#include "preload/files/device_view.h"

#include <algorithm>

#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "base/result_try.h"
#include "host/addresses/lid.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "nic/process/runtime.h"
#include "preload/files/pci_place.h"

namespace rrdma::files {
namespace {

// Bypasses the C library, because our own hooks would answer.
bool kernel_has(const std::string& path) {
  return ::syscall(SYS_faccessat, AT_FDCWD, path.c_str(), F_OK) == 0;
}

std::string first_line(const std::string& path) {
  const OwnedFd fd(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t size = fd.get() < 0 ? 0 : raw::read(fd.get(), text, sizeof text);
  if (size <= 0) return {};
  const std::string all(text, static_cast<std::size_t>(size));
  return all.substr(0, all.find('\n'));
}

}  // namespace

std::string verbs_file_of(const host::DeviceIdentity& identity) {
  for (std::uint32_t number = identity.device_index;; ++number) {
    std::string name = "uverbs" + std::to_string(number);
    if (!kernel_has("/sys/class/infiniband_verbs/" + name) && !kernel_has("/dev/infiniband/" + name))
      return name;
  }
}

Result<std::vector<DeviceView>, Problem> view_devices() {
  std::vector<DeviceView> views;
  nic::Runtime& runtime = nic::Runtime::instance();
  const auto interfaces = host::read_interfaces();
  RRDMA_TRY(interfaces);
  const auto identities = runtime.devices();
  RRDMA_TRY(identities);
  for (const host::DeviceIdentity& identity : *identities) {
    // An open device's table keeps its indices when addresses come and go; a new table would renumber them.
    std::shared_ptr<host::Device> device = runtime.find_open(identity.name);
    if (device == nullptr) device = std::make_shared<host::NetlinkDevice>(identity, *interfaces);
    DeviceView view{.identity = identity,
                    .port = device->port(),
                    .gids = device->gids(),
                    .verbs_file = verbs_file_of(identity)};
    if (runtime.settings().lid) view.lid = host::lid_of_port(view.gids);
    const std::string node = first_line("/sys/class/net/" + identity.interface + "/device/numa_node");
    if (!node.empty()) view.numa_node = node;
    if (identity.properties.numa_node) view.numa_node = std::to_string(*identity.properties.numa_node);
    const std::string& pci = identity.properties.pci;
    view.pci_root_is_machines = !pci.empty() && kernel_has("/" + pci_place_of(pci).root);
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace rrdma::files
