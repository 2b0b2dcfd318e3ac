// Device memory: memory of this process in a mapping of its own. Programs access it by copies or through a
// region with addresses from 0.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstring>

#include "base/format.h"
#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/memory/memory_region.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

// Copies move whole words, as to the memory of a real device.
constexpr std::size_t kWordOctets = 4;

bool in_range(const DeviceMemory& dm, std::uint64_t offset, std::size_t length) {
  return offset <= dm.length && length <= dm.length - offset;
}

int check_copy(const char* call, const DeviceMemory& dm, std::uint64_t offset, std::size_t length) {
  if (!in_range(dm, offset, length))
    return host::fail(EFAULT, call, "the range goes beyond the device memory.");
  if (offset % kWordOctets != 0 || length % kWordOctets != 0) {
    return host::fail(EINVAL, call, "offset and length must be multiples of 4.");
  }
  return 0;
}

int copy_to(ibv_dm* abi, std::uint64_t offset, const void* from, std::size_t length) {
  DeviceMemory& dm = own(abi);
  if (const int error = check_copy("ibv_memcpy_to_dm", dm, offset, length); error != 0) return error;
  std::memcpy(dm.data + offset, from, length);
  return 0;
}

int copy_from(void* to, ibv_dm* abi, std::uint64_t offset, std::size_t length) {
  DeviceMemory& dm = own(abi);
  if (const int error = check_copy("ibv_memcpy_from_dm", dm, offset, length); error != 0) return error;
  std::memcpy(to, dm.data + offset, length);
  return 0;
}

}  // namespace

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  if (inject("ibv_alloc_dm", context) != 0) return nullptr;
  constexpr const char* kCall = "ibv_alloc_dm";
  if (attr->comp_mask != 0 || attr->length == 0 || attr->log_align_req > 12) {
    host::fail(EINVAL, kCall, "comp_mask must be 0, length at least 1 and log_align_req at most 12.");
    return nullptr;
  }
  if (attr->length > kDeviceMemoryMax) {
    host::fail(ENOMEM, kCall,
               formatted("the length is {}, more than max_dm_size of ibv_query_device_ex ({}).", attr->length,
                         kDeviceMemoryMax));
    return nullptr;
  }
  void* data = mmap(nullptr, attr->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    host::fail(ENOMEM, kCall, "no memory.");
    return nullptr;
  }
  auto* dm = new DeviceMemory{};
  dm->context = context;
  dm->memcpy_to_dm = copy_to;
  dm->memcpy_from_dm = copy_from;
  dm->data = static_cast<std::uint8_t*>(data);
  dm->length = attr->length;
  static std::atomic<std::uint32_t> next_handle{1};
  dm->handle = next_handle.fetch_add(1, std::memory_order_relaxed);
  Place(kCall, ObjectKind::kDeviceMemory, context).settle<ibv_dm>(dm);
  return dm;
}

int free_dm(ibv_dm* abi) {
  if (const int error = refuse_unless_live("ibv_free_dm", abi, validity_of(abi)); error != 0) return error;
  DeviceMemory& dm = own(abi);
  // No lock of the lane, because device memory also works in the child of a fork.
  if (dm.users.load() != 0)
    return host::fail(EBUSY, "ibv_free_dm", "memory regions of the device memory still exist.");
  munmap(dm.data, dm.length);
  bury(dm, abi);
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* abi, std::uint64_t offset, std::size_t length, unsigned access) {
  constexpr const char* kCall = "ibv_reg_dm_mr";
  constexpr unsigned kAllowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                IBV_ACCESS_OPTIONAL_RANGE;
  if (check_argument(kCall, abi, pd->context) != 0) return nullptr;
  DeviceMemory& dm = own(abi);
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 || (access & ~kAllowed) != 0) {
    host::fail(EINVAL, kCall,
               "access must contain IBV_ACCESS_ZERO_BASED, and neither on-demand paging nor huge pages.");
    return nullptr;
  }
  if (!in_range(dm, offset, length)) {
    host::fail(EINVAL, kCall, "the range goes beyond the device memory.");
    return nullptr;
  }
  Mr* mr = register_region(
      kCall, {.pd = pd, .address = dm.data + offset, .length = length, .iova = 0, .access = access});
  if (mr == nullptr) return nullptr;
  mr->addr = nullptr;
  mr->device_memory = &dm;
  ++dm.users;
  return mr;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (!is_own(context)) RRDMA_PASS_ON(nullptr, ibv_import_dm, "IBVERBS_1.13", context, handle);
  host::fail(EOPNOTSUPP, "ibv_import_dm", "device memory cannot be shared between processes here.");
  return nullptr;
}

RRDMA_VERBS void ibv_unimport_dm(ibv_dm* dm) {
  if (is_own(dm->context)) return;
  if (auto* const real_function = RRDMA_REAL(ibv_unimport_dm, "IBVERBS_1.13")) real_function(dm);
}
