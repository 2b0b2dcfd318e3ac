// Public functions that libibverbs added after the release whose header we build with (nodes 1.15 to 1.18).
// Their structures are defined here as the ABI froze them. A program of any release must reach these instead
// of the real library's functions, which would crash on a context of ours.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <mutex>
#include <set>

#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/memory/memory_region.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/real_library.h"

struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

namespace rrdma::verbs {
namespace {

constexpr const char* kCounters = "completion counters are not offered; count completions of a CQ.";
constexpr const char* kHandles =
    "DMA handles steer caches of real devices, and there is no such device here.";
constexpr const char* kExport =
    "memory of this device is memory of the process, and no dmabuf stands behind it.";

enum RegionMask : std::uint64_t {
  kHasIova = 1,
  kHasAddress = 2,
  kHasFd = 4,
  kHasFdOffset = 8,
  kHasHandle = 16,
  kHasBuffer = 32
};

// struct ibv_mr_init_attr
struct RegionAttributes {
  std::size_t length;
  int access;
  std::uint64_t mask;
  std::uint64_t iova;
  void* address;
  int fd;
  std::uint64_t fd_offset;
  ibv_dmah* handle;
  ibv_buf* buffer;
};

// The common head of every ABI object.
struct WithContext {
  ibv_context* context;
};

template <typename Object>
bool is_own_object(Object* object) {
  return is_own(reinterpret_cast<WithContext*>(object)->context);
}

// Memory from ibv_alloc_buf. We may read no field of the real library's handle.
struct Buffer {
  void* address;
  std::size_t length;
};

struct Buffers {
  std::mutex mutex;
  std::set<const void*> known;
};

Buffers& buffers() {
  static auto* const all = new Buffers;
  return *all;
}

Buffer* find_buffer(ibv_buf* handle) {
  std::lock_guard lock(buffers().mutex);
  return buffers().known.contains(handle) ? reinterpret_cast<Buffer*>(handle) : nullptr;
}

bool contains(const Buffer& buffer, const void* address, std::size_t length) {
  const auto first = reinterpret_cast<std::uintptr_t>(buffer.address);
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  return wanted >= first && length <= buffer.length && wanted - first <= buffer.length - length;
}

ibv_mr* refuse_region(const char* sentence) {
  host::fail(EINVAL, "ibv_reg_mr_ex", sentence);
  return nullptr;
}

int refuse(const char* call, const char* why) { return host::fail(EOPNOTSUPP, call, why); }

}  // namespace
}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

// Newer headers declare these functions; with older ones the declaration is needed here.
#define RRDMA_NEWER(result, name, ...) \
  extern "C" result name(__VA_ARGS__); \
  RRDMA_VERBS result name(__VA_ARGS__)

// ---- 1.15 ----

RRDMA_NEWER(ibv_mr*, ibv_reg_mr_ex, ibv_pd* pd, ibv_mr_init_attr* attr) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_reg_mr_ex, "IBVERBS_1.15", pd, attr);
  const auto& form = *reinterpret_cast<const RegionAttributes*>(attr);
  constexpr std::uint64_t kKnown = kHasIova | kHasAddress | kHasFd | kHasFdOffset | kHasBuffer;
  if ((form.mask & kHasHandle) != 0) return refuse_region(kHandles);
  if ((form.mask & ~kKnown) != 0) return refuse_region("comp_mask has unknown bits.");
  if ((form.mask & kHasFd) != 0) {
    if ((form.mask & kHasFdOffset) == 0)
      return refuse_region("a dmabuf needs IBV_REG_MR_MASK_FD_OFFSET too.");
    const std::uint64_t iova = (form.mask & kHasIova) != 0 ? form.iova : form.fd_offset;
    return ibv_reg_dmabuf_mr(pd, form.fd_offset, form.length, iova, form.fd, form.access);
  }
  if ((form.mask & kHasAddress) == 0)
    return refuse_region("neither IBV_REG_MR_MASK_ADDR nor IBV_REG_MR_MASK_FD is set.");
  if ((form.mask & kHasBuffer) != 0) {
    const Buffer* buffer = find_buffer(form.buffer);
    if (buffer == nullptr || !contains(*buffer, form.address, form.length))
      return refuse_region("the range is not within the buffer.");
  }
  const std::uint64_t iova =
      (form.mask & kHasIova) != 0 ? form.iova : reinterpret_cast<std::uintptr_t>(form.address);
  return register_memory("ibv_reg_mr_ex", pd, form.address, form.length, iova,
                         static_cast<unsigned>(form.access));
}

RRDMA_NEWER(ibv_dmah*, ibv_alloc_dmah, ibv_context* context, ibv_dmah_init_attr* attr) {
  if (!is_own(context)) RRDMA_PASS_ON(nullptr, ibv_alloc_dmah, "IBVERBS_1.15", context, attr);
  refuse("ibv_alloc_dmah", kHandles);
  return nullptr;
}

RRDMA_NEWER(int, ibv_dealloc_dmah, ibv_dmah* handle) {
  if (!is_own_object(handle)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_dealloc_dmah, "IBVERBS_1.15", handle);
  return refuse("ibv_dealloc_dmah", kHandles);
}

// ---- 1.16 ----

RRDMA_NEWER(int, ibv_dm_export_dmabuf_fd, ibv_dm* dm) {
  if (!is_own(dm->context)) RRDMA_PASS_ON(-1, ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", dm);
  refuse("ibv_dm_export_dmabuf_fd", kExport);
  return -1;
}

// In units of 100 Mb/s.
RRDMA_NEWER(int, ibv_query_port_speed, ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  if (!is_own(context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_query_port_speed, "IBVERBS_1.16", context, port, speed);
  if (port != kPort)
    return host::fail(EINVAL, "ibv_query_port_speed", "port_num is not 1, and the device has one port.");
  *speed = own(context).nic_device->port().speed_mbps / 100;
  return 0;
}

// ---- 1.17 ----

RRDMA_NEWER(void*, ibv_alloc_buf, ibv_pd* pd, std::size_t size, ibv_buf** handle) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_alloc_buf, "IBVERBS_1.17", pd, size, handle);
  void* address = size != 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                            : MAP_FAILED;
  if (address == MAP_FAILED) {
    host::fail(size != 0 ? ENOMEM : EINVAL, "ibv_alloc_buf", size != 0 ? "no memory." : "the size is 0.");
    return nullptr;
  }
  auto* buffer = new Buffer{address, size};
  std::lock_guard lock(buffers().mutex);
  buffers().known.insert(buffer);
  *handle = reinterpret_cast<ibv_buf*>(buffer);
  return address;
}

RRDMA_NEWER(void, ibv_free_buf, ibv_buf* handle) {
  Buffer* buffer = find_buffer(handle);
  if (buffer == nullptr) {
    if (auto* const real_function = RRDMA_REAL(ibv_free_buf, "IBVERBS_1.17")) real_function(handle);
    return;
  }
  munmap(buffer->address, buffer->length);
  std::lock_guard lock(buffers().mutex);
  buffers().known.erase(buffer);
  delete buffer;
}

RRDMA_NEWER(ibv_mr*, ibv_reg_buf_mr, ibv_pd* pd, ibv_buf* handle, void* address, std::size_t length,
            int access) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_reg_buf_mr, "IBVERBS_1.17", pd, handle, address, length, access);
  const Buffer* buffer = find_buffer(handle);
  if (buffer == nullptr || !contains(*buffer, address, length)) {
    host::fail(EINVAL, "ibv_reg_buf_mr", "the range is not within the buffer.");
    return nullptr;
  }
  return register_memory("ibv_reg_buf_mr", pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                         static_cast<unsigned>(access));
}

// ---- 1.18 ----

RRDMA_NEWER(int, ibv_export_buf_dmabuf_fd, ibv_buf* handle) {
  if (find_buffer(handle) == nullptr) RRDMA_PASS_ON(-1, ibv_export_buf_dmabuf_fd, "IBVERBS_1.18", handle);
  refuse("ibv_export_buf_dmabuf_fd", kExport);
  return -1;
}

RRDMA_NEWER(int, _ibv_query_comp_cntr_caps, ibv_context* context, ibv_comp_cntr_caps* caps,
            std::size_t size) {
  if (!is_own(context))
    RRDMA_PASS_ON(EOPNOTSUPP, _ibv_query_comp_cntr_caps, "IBVERBS_1.18", context, caps, size);
  return refuse("ibv_query_comp_cntr_caps", kCounters);
}

RRDMA_NEWER(ibv_comp_cntr*, ibv_create_comp_cntr, ibv_context* context, ibv_comp_cntr_init_attr* attr) {
  if (!is_own(context)) RRDMA_PASS_ON(nullptr, ibv_create_comp_cntr, "IBVERBS_1.18", context, attr);
  refuse("ibv_create_comp_cntr", kCounters);
  return nullptr;
}

RRDMA_NEWER(int, ibv_destroy_comp_cntr, ibv_comp_cntr* counter) {
  if (!is_own_object(counter)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_destroy_comp_cntr, "IBVERBS_1.18", counter);
  return refuse("ibv_destroy_comp_cntr", kCounters);
}

#define RRDMA_COUNTER_CALL(name, type)                                                            \
  RRDMA_NEWER(int, name, ibv_comp_cntr* counter, type value) {                                    \
    if (!is_own_object(counter)) RRDMA_PASS_ON(EOPNOTSUPP, name, "IBVERBS_1.18", counter, value); \
    return refuse(#name, kCounters);                                                              \
  }

RRDMA_COUNTER_CALL(ibv_set_comp_cntr, std::uint64_t)
RRDMA_COUNTER_CALL(ibv_set_err_comp_cntr, std::uint64_t)
RRDMA_COUNTER_CALL(ibv_inc_comp_cntr, std::uint64_t)
RRDMA_COUNTER_CALL(ibv_inc_err_comp_cntr, std::uint64_t)
RRDMA_COUNTER_CALL(ibv_read_comp_cntr, std::uint64_t*)
RRDMA_COUNTER_CALL(ibv_read_err_comp_cntr, std::uint64_t*)

RRDMA_NEWER(int, ibv_qp_attach_comp_cntr, ibv_qp* qp, ibv_comp_cntr* counter,
            ibv_qp_attach_comp_cntr_attr* attr) {
  if (!is_own(qp->context))
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_qp_attach_comp_cntr, "IBVERBS_1.18", qp, counter, attr);
  return refuse("ibv_qp_attach_comp_cntr", kCounters);
}
