// Memory regions: registration in all its forms. The pages are not pinned. Every copy is guarded, so a page
// that the program unmaps fails the work request and never crashes. Memory that the CPU cannot touch is
// recognised here (nic/memory/memory_kinds.h).
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "base/raw_syscall.h"
#include "host/explain.h"
#include "preload/verbs/memory/memory_region.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/real_library.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace rrdma::verbs {
namespace {

// The API requires that unknown optional flags are ignored.
constexpr unsigned kOptionalRange = IBV_ACCESS_OPTIONAL_RANGE;

constexpr const char* kTooManyKinds = "the memory belongs to more devices than this process can use at once.";

unsigned known_access(unsigned access) { return access & (~kOptionalRange | IBV_ACCESS_RELAXED_ORDERING); }

std::uintptr_t page_octets() { return static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)); }

// True if every page of the range is mapped. MS_ASYNC only checks.
bool is_mapped(const void* address, std::size_t length) {
  const std::uintptr_t page = page_octets();
  const auto first = reinterpret_cast<std::uintptr_t>(address) & ~(page - 1);
  const auto last = reinterpret_cast<std::uintptr_t>(address) + length;
  const int saved = errno;
  const bool mapped = msync(reinterpret_cast<void*>(first), last - first, MS_ASYNC) == 0;
  errno = saved;
  return mapped;
}

int error_of(objects::MemoryError error) {
  switch (error) {
    case objects::MemoryError::kTooManyKeys: return ENOMEM;
    case objects::MemoryError::kStillBound: return EBUSY;
    default: return EINVAL;
  }
}

// Checks that need the memory itself. Returns 0 or an errno, explained.
int check_memory(const char* call, void* address, std::size_t length, unsigned access,
                 const nic::MemoryOrigin& origin) {
  // The kernel counts pages (ib_umem_get): a region of no bytes inside a page has one, and every device
  // accepts it.
  if (length == 0 && reinterpret_cast<std::uintptr_t>(address) % page_octets() == 0)
    return host::fail(EINVAL, call, "the length is 0.");
  if (!origin.wholly_there) {
    return host::fail(EFAULT, call, "the range begins in the memory of a GPU and goes beyond it.");
  }
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 || !origin.ordinary()) return 0;
  if (reinterpret_cast<std::uintptr_t>(address) + length < length) {
    return host::fail(EINVAL, call, "address plus length goes beyond the end of the address space.");
  }
  if (!is_mapped(address, length)) {
    return host::fail(
        EFAULT, call,
        "part of the range is not mapped; map it first, or register with IBV_ACCESS_ON_DEMAND.");
  }
  return 0;
}

// The checks that libibverbs makes before it calls a driver; all other errors are command errors.
int check_rereg_input(int flags, const void* address, std::size_t length, int access) {
  constexpr const char* kCall = "ibv_rereg_mr";
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
    return host::fail(EINVAL, kCall,
                      "flags must be a combination of IBV_REREG_MR_CHANGE_TRANSLATION, _PD and _ACCESS.");
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || length == 0))
    return host::fail(EINVAL, kCall, "a new translation needs an address and a length.");
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0 && access != 0)
    return host::fail(EINVAL, kCall, "access is given, and flags lacks IBV_REREG_MR_CHANGE_ACCESS.");
  return 0;
}

Mr* register_checked(const char* call, const RegionForm& form) {
  if (refuse_unless_live(call, form.pd, validity_of(form.pd)) != 0) return nullptr;
  Pd& pd = own(form.pd);
  Context& context = own(form.pd->context);
  if (context.forked()) {
    refuse_forked(call);
    return nullptr;
  }
  Place place(call, ObjectKind::kRegion, form.pd->context);
  if (!place.granted()) return nullptr;
  auto mr = std::make_unique<Mr>();
  const std::lock_guard all(*context.lanes);
  const std::uint8_t kind = context.lanes->kind_of(form.origin);
  if (kind == 0 && !form.origin.ordinary()) {
    host::fail(ENOMEM, call, kTooManyKinds);
    return nullptr;
  }
  auto region = context.lanes->memory().register_region({.pd = &pd.root(),
                                                         .host = form.address,
                                                         .length = form.length,
                                                         .address = form.iova,
                                                         .access = known_access(form.access),
                                                         .null_region = form.null_region,
                                                         .kind = kind});
  if (!region) {
    host::fail(error_of(region.error()), call, std::string(objects::describe(region.error())));
    return nullptr;
  }
  mr->region = *region;
  mr->context = form.pd->context;
  mr->pd = form.pd;
  mr->addr = form.address;
  mr->length = form.length;
  mr->handle = (*region)->key;
  mr->lkey = mr->rkey = (*region)->key;
  place.settle<ibv_mr>(mr.get());
  return mr.release();
}

}  // namespace

Mr* register_region(const char* call, const RegionForm& form) { return register_checked(call, form); }

ibv_mr* register_memory(const char* call, ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access) {
  const auto origin = nic::MemoryOrigin::of(address, length);
  if (check_memory(call, address, length, access, origin) != 0) return nullptr;
  return register_checked(
      call,
      {.pd = pd, .address = address, .length = length, .iova = iova, .access = access, .origin = origin});
}

namespace {

// Collective libraries use descriptor -1 to ask whether the device can access the memory of other devices (a
// GPU): EBADF means yes.
int check_dmabuf(const char* call, int fd, std::size_t length) {
  if (fd < 0 && !nic::MemoryOrigin::any_kind()) {
    return host::fail(
        EOPNOTSUPP, call,
        "this process has not loaded libcuda, so only buffers that the CPU can map can be reached.");
  }
  if (raw::fcntl(fd, F_GETFD) < 0) return host::fail(EBADF, call, "fd is not an open file.");
  return length != 0 ? 0 : host::fail(EINVAL, call, "the length is 0.");
}

}  // namespace

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  return register_checked(
      "ibv_alloc_null_mr",
      {.pd = pd, .length = SIZE_MAX, .access = IBV_ACCESS_LOCAL_WRITE, .null_region = true});
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  constexpr const char* kCall = "ibv_advise_mr";
  if (const int error = inject(kCall, pd->context); error != 0) return error;
  constexpr std::uint32_t kFlagFlush =
      1;  // IBV_ADVISE_MR_FLAG_FLUSH: wait for completion, which happens anyway
  const bool known = advice == IBV_ADVISE_MR_ADVICE_PREFETCH ||
                     advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ||
                     advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  if (!known) return host::fail(EOPNOTSUPP, kCall, "there is no such advice.");
  if ((flags & ~kFlagFlush) != 0) return host::fail(EINVAL, kCall, "flags has unknown bits.");
  if (count == 0) return host::fail(EINVAL, kCall, "the list is empty.");
  Context& context = own(pd->context);
  if (context.forked()) return refuse_forked(kCall);
  const std::lock_guard lock(context.lanes->first().mutex());
  for (std::uint32_t i = 0; i < count; ++i) {
    const ibv_sge& sge = list[i];
    const objects::MemoryRegion* region = context.lanes->memory().find_region(sge.lkey);
    if (region == nullptr || region->pd != &own(pd).root()) {
      return host::fail(ENOENT, kCall, "an lkey of the list is not of a region of this protection domain.");
    }
    if ((region->access & objects::kOnDemand) == 0) {
      return host::fail(EINVAL, kCall, "a region of the list was not registered with IBV_ACCESS_ON_DEMAND.");
    }
    const std::uint32_t need =
        advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? std::uint32_t{objects::kLocalWrite} : 0;
    const objects::AccessVerdict verdict =
        context.lanes->memory().check_local(*region->pd, wire::LKey{sge.lkey}, sge.addr, sge.length, need);
    if (verdict.cause == objects::Cause::kLocalNotWritable) {
      return host::fail(EPERM, kCall, "a region of the list does not allow writing.");
    }
    if (!verdict.ok()) return host::fail(EFAULT, kCall, "a range of the list goes beyond its region.");
    const bool mapped = is_mapped(verdict.host, sge.length);
    if (!mapped && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
      return host::fail(EFAULT, kCall, "part of a range of the list is not mapped.");
    }
    if (mapped)
      madvise(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(verdict.host) & ~std::uintptr_t{4095}),
              sge.length, MADV_WILLNEED);
  }
  return 0;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_reg_mr, "IBVERBS_1.1", pd, address, length, access);
  return register_memory("ibv_reg_mr", pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                         static_cast<unsigned>(access));
}

RRDMA_VERBS ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                                    int access) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_reg_mr_iova, "IBVERBS_1.7", pd, address, length, iova, access);
  return register_memory("ibv_reg_mr_iova", pd, address, length, iova, static_cast<unsigned>(access));
}

RRDMA_VERBS ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                                     unsigned access) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_reg_mr_iova2, "IBVERBS_1.8", pd, address, length, iova, access);
  return register_memory("ibv_reg_mr", pd, address, length, iova, access);
}

RRDMA_VERBS int ibv_rereg_mr(ibv_mr* abi, int flags, ibv_pd* pd, void* address, std::size_t length,
                             int access) {
  constexpr const char* kCall = "ibv_rereg_mr";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(-1, ibv_rereg_mr, "IBVERBS_1.1", abi, flags, pd, address, length, access);
  if (check_rereg_input(flags, address, length, access) != 0) return IBV_REREG_MR_ERR_INPUT;
  const bool translation = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const auto rights = static_cast<unsigned>(access);
  if (refuse_unless_live(kCall, abi, validity) != 0) return IBV_REREG_MR_ERR_CMD;
  if (flags == 0) {
    host::fail(EINVAL, kCall, "flags is 0: nothing is to be changed.");
    return IBV_REREG_MR_ERR_CMD;
  }
  const auto origin = translation ? nic::MemoryOrigin::of(address, length) : nic::MemoryOrigin{};
  if (translation && check_memory(kCall, address, length, rights, origin) != 0) return IBV_REREG_MR_ERR_CMD;
  Mr& mr = own(abi);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 &&
      (pd == nullptr ? host::fail(EINVAL, kCall, "the protection domain is null.")
                     : check_argument(kCall, pd, abi->context)) != 0)
    return IBV_REREG_MR_ERR_CMD;
  Context& context = own(abi->context);
  if (context.forked()) {
    refuse_forked(kCall);
    return IBV_REREG_MR_ERR_CMD;
  }
  const std::lock_guard all(*context.lanes);
  const objects::MemoryRegion& region = *mr.region;
  objects::RegionRequest request{.pd = region.pd,
                                 .host = region.host,
                                 .length = region.length,
                                 .address = region.address,
                                 .access = region.access,
                                 .null_region = region.null_region,
                                 .kind = region.kind};
  if (translation) {
    request.kind = context.lanes->kind_of(origin);
    if (request.kind == 0 && !origin.ordinary()) {
      host::fail(ENOMEM, kCall, kTooManyKinds);
      return IBV_REREG_MR_ERR_CMD;
    }
    request.host = address;
    request.length = length;
    request.address = reinterpret_cast<std::uintptr_t>(address);
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) request.pd = &own(pd).root();
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) request.access = known_access(rights);
  if (auto changed = context.lanes->memory().reregister(*mr.region, request); !changed) {
    host::fail(error_of(changed.error()), kCall, std::string(objects::describe(changed.error())));
    return IBV_REREG_MR_ERR_CMD;
  }
  if (translation) {
    mr.addr = address;
    mr.length = length;
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) mr.pd = pd;
  return 0;
}

RRDMA_VERBS int ibv_dereg_mr(ibv_mr* abi) {
  constexpr const char* kCall = "ibv_dereg_mr";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_dereg_mr, "IBVERBS_1.1", abi);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Mr& mr = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked(kCall);
  {
    const std::lock_guard all(*context.lanes);
    if (auto gone = context.lanes->memory().deregister(*mr.region); !gone) {
      return host::fail(EBUSY, kCall,
                        "memory windows are still bound to the region; invalidate or free them first.");
    }
    if (mr.device_memory != nullptr) --mr.device_memory->users;
  }
  if (mr.mapped != nullptr) munmap(mr.mapped, mr.mapped_octets);
  bury(mr, abi);
  return 0;
}

RRDMA_VERBS ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                      std::uint64_t iova, int fd, int access) {
  constexpr const char* kCall = "ibv_reg_dmabuf_mr";
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_reg_dmabuf_mr, "IBVERBS_1.12", pd, offset, length, iova, fd, access);
  if (check_dmabuf(kCall, fd, length) != 0) return nullptr;
  // A descriptor cannot be turned into an address again. Programs export their own memory and pass its
  // address as the iova, which is then checked like any other address.
  void* const exported = reinterpret_cast<void*>(static_cast<std::uintptr_t>(iova));
  if (const auto origin = nic::MemoryOrigin::of(exported, length); !origin.ordinary()) {
    if (check_memory(kCall, exported, length, static_cast<unsigned>(access), origin) != 0) return nullptr;
    Mr* const mr = register_region(kCall, {.pd = pd,
                                           .address = exported,
                                           .length = length,
                                           .iova = iova,
                                           .access = static_cast<unsigned>(access),
                                           .origin = origin});
    if (mr != nullptr) mr->addr = reinterpret_cast<void*>(offset);
    return mr;
  }
  const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t skip = offset & (page - 1);
  const bool writable =
      (access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  void* mapped = mmap(nullptr, length + skip, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
                      static_cast<off_t>(offset - skip));
  if (mapped == MAP_FAILED) {
    host::fail(
        EOPNOTSUPP, kCall,
        "the buffer cannot be mapped into this process, and iova is not the address of memory on a GPU.");
    return nullptr;
  }
  Mr* mr = register_region(kCall, {.pd = pd,
                                   .address = static_cast<std::uint8_t*>(mapped) + skip,
                                   .length = length,
                                   .iova = iova,
                                   .access = static_cast<unsigned>(access)});
  if (mr == nullptr) {
    munmap(mapped, length + skip);
    return nullptr;
  }
  mr->mapped = mapped;
  mr->mapped_octets = length + skip;
  mr->addr = reinterpret_cast<void*>(offset);
  return mr;
}

RRDMA_VERBS ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (validity_of(pd) == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_import_mr, "IBVERBS_1.10", pd, handle);
  host::fail(EOPNOTSUPP, "ibv_import_mr", "a memory region cannot be shared between processes here.");
  return nullptr;
}

RRDMA_VERBS void ibv_unimport_mr(ibv_mr* mr) {
  if (is_own(mr->context)) return;
  if (auto* const real_function = RRDMA_REAL(ibv_unimport_mr, "IBVERBS_1.10")) real_function(mr);
}
