// Memory windows. A bind goes through the send queue, as the API requires. ibv_bind_mw of a type 1 window
// posts such a request here, with the key that the window will have.
#include <infiniband/verbs.h>

#include <mutex>

#include "host/explain.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"

namespace rrdma::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  constexpr const char* kCall = "ibv_alloc_mw";
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    host::fail(EINVAL, kCall, "the type is neither IBV_MW_TYPE_1 nor IBV_MW_TYPE_2.");
    return nullptr;
  }
  if (refuse_unless_live(kCall, pd, validity_of(pd)) != 0) return nullptr;
  Context& context = own(pd->context);
  if (context.forked()) {
    refuse_forked(kCall);
    return nullptr;
  }
  Place place(kCall, ObjectKind::kWindow, pd->context);
  if (!place.granted()) return nullptr;
  const std::lock_guard all(*context.lanes);
  auto window = context.lanes->memory().allocate_window(
      own(pd).root(), type == IBV_MW_TYPE_1 ? objects::WindowType::kType1 : objects::WindowType::kType2);
  if (!window) {
    host::fail(ENOMEM, kCall, "all memory keys of the process are in use.");
    return nullptr;
  }
  auto* mw = new Mw{};
  mw->context = pd->context;
  mw->pd = pd;
  mw->type = type;
  mw->window = *window;
  mw->rkey = mw->handle = (*window)->key;
  place.settle<ibv_mw>(mw);
  return mw;
}

int dealloc_mw(ibv_mw* abi) {
  if (const int error = refuse_unless_live("ibv_dealloc_mw", abi, validity_of(abi)); error != 0) return error;
  Mw& mw = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked("ibv_dealloc_mw");
  const std::lock_guard all(*context.lanes);
  context.lanes->memory().free_window(*mw.window);
  bury(mw, abi);
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (const int error = inject("ibv_bind_mw", qp->context); error != 0) return error;
  const ibv_mw_bind_info& info = bind->bind_info;
  if (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) {
    return host::fail(EINVAL, "ibv_bind_mw", "a type 1 window cannot be zero-based.");
  }
  ibv_send_wr wr{};
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind->send_flags;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = info;
  ibv_send_wr* bad = nullptr;
  return post_send_from(call_site(), qp, &wr, &bad);
}

}  // namespace rrdma::verbs
