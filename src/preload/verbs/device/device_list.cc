// The devices that a program finds: ours, then those of the system's libibverbs, unless the user requests
// another order. Many programs take the first device, and hosts with an unusable device are common. Our
// devices are never freed: programs keep pointers to them after ibv_free_device_list, and there are few.
#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "host/descriptor_room.h"
#include "host/explain.h"
#include "nic/process/runtime.h"
#include "preload/files/device_view.h"
#include "preload/files/excepted.h"
#include "preload/files/redirect.h"
#include "preload/verbs/device/context.h"
#include "preload/verbs/device/device_list.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {

void own_device_mark() {}

namespace {

constexpr const char* kListCall = "ibv_get_device_list";

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

std::mutex& devices_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::vector<OwnDevice*>& known_devices() {
  static auto* const known = new std::vector<OwnDevice*>;
  return *known;
}

OwnDevice* make_device(const host::DeviceIdentity& identity) {
  // Vendor libraries read their own structure behind the ibv_device: they must find zeros there.
  void* memory = std::calloc(1, sizeof(OwnDevice));
  if (memory == nullptr) return nullptr;
  auto* made = new (memory) OwnDevice{};
  made->identity = new host::DeviceIdentity(identity);
  ibv_device& device = made->device;
  device._ops._dummy2 = reinterpret_cast<void (*)(ibv_context*)>(&own_device_mark);
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  const std::string file = files::verbs_file_of(identity);
  copy_text(device.name, identity.name);
  copy_text(device.dev_name, file);
  copy_text(device.dev_path, "/sys/class/infiniband_verbs/" + file);
  copy_text(device.ibdev_path, "/sys/class/infiniband/" + identity.name);
  return made;
}

// REQUIRES: devices_mutex().
OwnDevice* find_or_make(const host::DeviceIdentity& identity) {
  for (OwnDevice* known : known_devices()) {
    const host::DeviceIdentity& other = *known->identity;
    if (other.name == identity.name && other.interface == identity.interface && other.guid == identity.guid)
      return known;
  }
  OwnDevice* made = make_device(identity);
  if (made != nullptr) known_devices().push_back(made);
  return made;
}

// The result of ibv_get_device_list starts with the entries, because some programs call free() on it (qperf).
// The list of the real library follows the terminating null.
ibv_device**& real_list_of(ibv_device** entries) {
  while (*entries != nullptr) ++entries;
  return *reinterpret_cast<ibv_device***>(entries + 1);
}

ibv_device** list_real_devices(int& count) {
  auto* const list_real = RRDMA_REAL(ibv_get_device_list, "IBVERBS_1.1");
  if (list_real == nullptr) return nullptr;
  const files::MachineFiles only;
  errno = 0;
  ibv_device** real = list_real(&count);
  if (real != nullptr) return real;
  count = 0;
  if (errno == EMFILE || errno == ENFILE)
    host::explain(host::Severity::kError, kListCall,
                  host::out_of_descriptors(errno, "listing the devices of the kernel").error.sentence);
  return nullptr;
}

// Null with errno if the devices cannot be determined.
ibv_device** make_list(int* count) {
  const nic::KernelDevices kernel = nic::Runtime::instance().settings().kernel_devices;
  int real_count = 0;
  ibv_device** real = kernel != nic::KernelDevices::kHidden ? list_real_devices(real_count) : nullptr;
  // An excepted program sees the list of the real library, even if it is empty.
  const auto identities =
      files::is_excepted() ? decltype(nic::Runtime::instance().devices())(std::vector<host::DeviceIdentity>())
                           : nic::Runtime::instance().devices();
  if (!identities) {
    if (real != nullptr) RRDMA_REAL(ibv_free_device_list, "IBVERBS_1.1")(real);
    host::fail(identities.error(), kListCall);
    return nullptr;
  }
  const std::size_t total = static_cast<std::size_t>(real_count) + identities->size();
  auto** entries = static_cast<ibv_device**>(std::calloc(total + 2, sizeof(ibv_device*)));
  if (entries == nullptr) {
    host::fail({ENOMEM, "no memory for the list of devices."}, kListCall);
    return nullptr;
  }
  int used = 0;
  const auto add_real = [&] {
    std::copy_n(real, real_count, entries + used);
    used += real_count;
  };
  if (kernel == nic::KernelDevices::kBefore) add_real();
  {
    std::lock_guard lock(devices_mutex());
    for (const host::DeviceIdentity& identity : *identities) {
      if (OwnDevice* device = find_or_make(identity)) entries[used++] = &device->device;
    }
  }
  if (kernel != nic::KernelDevices::kBefore) add_real();
  if (count != nullptr) *count = used;
  real_list_of(entries) = real;
  return entries;
}

}  // namespace

const host::DeviceIdentity& identity_of(ibv_device* device) {
  return *reinterpret_cast<OwnDevice*>(device)->identity;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  return make_list(count);
}

RRDMA_VERBS void ibv_free_device_list(ibv_device** entries) {
  if (entries == nullptr) return;
  ibv_device** real = real_list_of(entries);
  if (real != nullptr) RRDMA_REAL(ibv_free_device_list, "IBVERBS_1.1")(real);
  std::free(entries);
}

RRDMA_VERBS const char* ibv_get_device_name(ibv_device* device) { return device->name; }

RRDMA_VERBS int ibv_get_device_index(ibv_device* device) {
  if (!is_own(device)) RRDMA_PASS_ON(-1, ibv_get_device_index, "IBVERBS_1.9", device);
  // The index is an RDMA netlink identifier, and the kernel's netlink does not know this device.
  return -1;
}

RRDMA_VERBS __be64 ibv_get_device_guid(ibv_device* device) {
  if (!is_own(device)) RRDMA_PASS_ON(0, ibv_get_device_guid, "IBVERBS_1.1", device);
  return big_endian(identity_of(device).guid);
}
