// Protection domains, parent domains and thread domains. A parent domain is another name for its original
// domain. Its allocators are unused, because the device places nothing here.
#include <infiniband/verbs.h>

#include <mutex>

#include "host/explain.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

std::atomic<std::uint32_t> next_handle{1};

Pd* make_pd(ibv_context* context, Place& place) {
  auto* pd = new Pd{};
  pd->context = context;
  pd->handle = next_handle.fetch_add(1, std::memory_order_relaxed);
  pd->domain.handle = pd->handle;
  place.settle<ibv_pd>(pd);
  return pd;
}

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (inject("ibv_alloc_td", context) != 0) return nullptr;
  if (attr->comp_mask != 0) {
    host::fail(EINVAL, "ibv_alloc_td", "comp_mask has unknown bits; it must be 0.");
    return nullptr;
  }
  auto* td = new ThreadDomain{};
  td->context = context;
  Place("ibv_alloc_td", ObjectKind::kThreadDomain, context).settle<ibv_td>(td);
  return td;
}

int dealloc_td(ibv_td* abi) {
  if (const int error = refuse_unless_live("ibv_dealloc_td", abi, validity_of(abi)); error != 0) return error;
  ThreadDomain& td = own(abi);
  if (td.users.load() != 0)
    return host::fail(EBUSY, "ibv_dealloc_td", "parent domains still use the thread domain.");
  bury(td, abi);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  if (inject("ibv_alloc_parent_domain", context) != 0) return nullptr;
  constexpr const char* kCall = "ibv_alloc_parent_domain";
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (attr->pd == nullptr || (attr->comp_mask & ~kKnown) != 0) {
    host::fail(EINVAL, kCall,
               attr->pd == nullptr ? "attr->pd is null; a parent domain is made of a protection domain."
                                   : "comp_mask has unknown bits.");
    return nullptr;
  }
  if (own(context).forked()) {
    refuse_forked(kCall);
    return nullptr;
  }
  if (check_argument(kCall, attr->pd, context) != 0) return nullptr;
  if (attr->td != nullptr && check_argument(kCall, attr->td, context) != 0) return nullptr;
  Pd& base = own(attr->pd);
  Place place(kCall, ObjectKind::kDomain, context, false);
  Pd* pd = make_pd(context, place);
  pd->original = base.original != nullptr ? base.original : &base;
  if (attr->td != nullptr) {
    pd->thread_domain = &own(attr->td);
    ++pd->thread_domain->users;
  }
  const std::lock_guard all(*own(context).lanes);
  ++pd->original->parent_users;
  return pd;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_pd* ibv_alloc_pd(ibv_context* context) {
  constexpr const char* kCall = "ibv_alloc_pd";
  const ObjectValidity validity = validity_of(context);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(nullptr, ibv_alloc_pd, "IBVERBS_1.1", context);
  if (refuse_unless_live(kCall, context, validity) != 0) return nullptr;
  if (own(context).forked()) {
    refuse_forked(kCall);
    return nullptr;
  }
  Place place(kCall, ObjectKind::kDomain, context);
  return place.granted() ? make_pd(context, place) : nullptr;
}

RRDMA_VERBS int ibv_dealloc_pd(ibv_pd* abi) {
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_dealloc_pd, "IBVERBS_1.1", abi);
  if (const int error = refuse_unless_live("ibv_dealloc_pd", abi, validity); error != 0) return error;
  Pd& pd = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked("ibv_dealloc_pd");
  const std::lock_guard all(*context.lanes);
  if (pd.parent_users != 0 || pd.domain.users != 0) {
    return host::fail(EBUSY, "ibv_dealloc_pd",
                      "memory regions, windows, QPs, SRQs, address handles or parent domains of this domain "
                      "still exist; destroy them first.");
  }
  if (pd.original != nullptr) --pd.original->parent_users;
  if (pd.thread_domain != nullptr) --pd.thread_domain->users;
  bury(pd, abi);
  return 0;
}

RRDMA_VERBS ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (!is_own(context)) RRDMA_PASS_ON(nullptr, ibv_import_pd, "IBVERBS_1.10", context, handle);
  host::fail(EOPNOTSUPP, "ibv_import_pd", "a protection domain cannot be shared between processes here.");
  return nullptr;
}

RRDMA_VERBS void ibv_unimport_pd(ibv_pd* pd) {
  if (is_own(pd->context)) return;
  if (auto* const real_function = RRDMA_REAL(ibv_unimport_pd, "IBVERBS_1.10")) real_function(pd);
}
