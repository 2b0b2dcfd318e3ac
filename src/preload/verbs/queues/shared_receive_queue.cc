// Shared receive queues, basic and XRC.
#include <infiniband/verbs.h>

#include <mutex>
#include <new>

#include "base/format.h"
#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/work_requests.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

std::atomic<std::uint32_t> next_number{1};

std::string depth_text(std::uint32_t wanted) {
  return formatted("max_wr is {}, but must be between 1 and max_srq_wr of ibv_query_device ({}).", wanted,
                   kQueueDepthMax);
}

int check_capacity(const char* call, const ibv_context* context, const ibv_srq_attr& attr) {
  if (attr.max_wr < 1 || attr.max_wr > kQueueDepthMax) {
    return host::fail(EINVAL, call, depth_text(attr.max_wr));
  }
  const std::uint32_t pieces = limit_of(context, "max_sge", kSgeMax);
  if (attr.max_sge > pieces) {
    return host::fail(
        EINVAL, call,
        formatted("max_sge is {}, more than max_srq_sge of ibv_query_device ({}).", attr.max_sge, pieces));
  }
  return 0;
}

Srq* make_srq(const char* call, ibv_pd* pd, void* user_context, ibv_srq_attr& attr) {
  if (own(pd->context).forked()) {
    refuse_forked(call);
    return nullptr;
  }
  if (check_capacity(call, pd->context, attr) != 0) return nullptr;
  Place place(call, ObjectKind::kSrq, pd->context);
  if (!place.granted()) return nullptr;
  attr.max_sge = std::max(attr.max_sge, 1u);
  auto* srq = new Srq(attr.max_wr, attr.max_sge);
  srq->context = pd->context;
  srq->srq_context = user_context;
  srq->pd = pd;
  srq->number = srq->handle = next_number.fetch_add(1, std::memory_order_relaxed) & wire::kMask24;
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  srq->queue.pd = &own(pd).root();
  std::lock_guard lock(own(pd->context).lanes->first().mutex());
  ++own(pd).root().users;
  place.settle<ibv_srq>(srq);
  return srq;
}

}  // namespace

void Srq::on_limit(objects::ReceiveQueue&) {
  ibv_async_event event{};
  event.element.srq = this;
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  own(context).async_events->push(event);
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  if (inject("ibv_create_srq_ex", context) != 0) return nullptr;
  constexpr const char* kCall = "ibv_create_srq_ex";
  constexpr std::uint32_t kKnown =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const std::uint32_t mask = attr->comp_mask;
  const ibv_srq_type type = (mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type : IBV_SRQT_BASIC;
  if ((mask & ~kKnown) != 0 || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)) {
    host::fail(EOPNOTSUPP, kCall,
               "this device has basic and XRC shared receive queues; tag matching is not offered.");
    return nullptr;
  }
  if ((mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    host::fail(EINVAL, kCall, "a shared receive queue needs a protection domain (IBV_SRQ_INIT_ATTR_PD).");
    return nullptr;
  }
  constexpr std::uint32_t kXrcNeeds = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (type == IBV_SRQT_XRC && (mask & kXrcNeeds) != kXrcNeeds) {
    host::fail(EINVAL, kCall,
               "an XRC shared receive queue needs an XRC domain and a CQ (IBV_SRQ_INIT_ATTR_XRCD, "
               "IBV_SRQ_INIT_ATTR_CQ).");
    return nullptr;
  }
  if (check_argument(kCall, attr->pd, context) != 0) return nullptr;
  if (type == IBV_SRQT_XRC &&
      (check_argument(kCall, attr->xrcd, context) != 0 || check_argument(kCall, attr->cq, context) != 0))
    return nullptr;
  Srq* srq = make_srq(kCall, attr->pd, attr->srq_context, attr->attr);
  if (srq == nullptr || type == IBV_SRQT_BASIC) return srq;
  srq->type = IBV_SRQT_XRC;
  srq->xrc_domain = &own(attr->xrcd);
  srq->cq = &own(attr->cq);
  nic::Lane& lane = own(context).lanes->assign({.receive = &srq->cq->lanes});
  std::lock_guard lock(lane.mutex());
  ++srq->xrc_domain->users;
  ++srq->cq->queue.users;
  srq->queue.xrc_domain = srq->xrc_domain;
  srq->queue.completions = &srq->cq->queue;
  lane.engine().set_xrc_queue(srq->number, &srq->queue);
  return srq;
}

int srq_number(ibv_srq* srq, std::uint32_t* number) {
  if (own(srq).type != IBV_SRQT_XRC) {
    return host::fail(EINVAL, "ibv_get_srq_num", "only XRC shared receive queues have a number.");
  }
  *number = own(srq).number;
  return 0;
}

int post_srq_recv(ibv_srq* abi, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Srq& srq = own(abi);
  int error = 0;
  std::lock_guard lock(srq.producer);
  for (; wr != nullptr; wr = wr->next) {
    if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > srq.queue.sge_max()) {
      error = host::fail(EINVAL, "ibv_post_srq_recv",
                         formatted("the request has {} scatter elements, and max_sge of the queue is {}.",
                                   wr->num_sge, srq.queue.sge_max()));
      break;
    }
    if (!srq.queue.post(wr->wr_id, list_of(wr->sg_list, wr->num_sge))) {
      error = host::fail(ENOMEM, "ibv_post_srq_recv",
                         formatted("the shared receive queue is full: it holds {} requests (max_wr).",
                                   srq.queue.capacity()));
      break;
    }
  }
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  const ObjectValidity validity = validity_of(pd);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(nullptr, ibv_create_srq, "IBVERBS_1.1", pd, attr);
  if (refuse_unless_live("ibv_create_srq", pd, validity) != 0) return nullptr;
  return make_srq("ibv_create_srq", pd, attr->srq_context, attr->attr);
}

RRDMA_VERBS int ibv_modify_srq(ibv_srq* abi, ibv_srq_attr* attr, int mask) {
  constexpr const char* kCall = "ibv_modify_srq";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_modify_srq, "IBVERBS_1.1", abi, attr, mask);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Srq& srq = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked(kCall);
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
    return host::fail(EINVAL, kCall, "the mask has unknown bits.");
  std::lock_guard lane(context.lanes->first().mutex());
  std::lock_guard producer(srq.producer);
  std::uint32_t capacity = srq.queue.capacity();
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (attr->max_wr < 1 || attr->max_wr > kQueueDepthMax) {
      return host::fail(EINVAL, kCall, depth_text(attr->max_wr));
    }
    capacity = attr->max_wr;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0 && attr->srq_limit > capacity) {
    return host::fail(EINVAL, kCall,
                      formatted("srq_limit is {}, more than the {} requests that the queue holds.",
                                attr->srq_limit, capacity));
  }
  if ((mask & IBV_SRQ_MAX_WR) != 0 && !srq.queue.resize(attr->max_wr)) {
    return host::fail(EINVAL, kCall, "more requests wait in the queue than would fit.");
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) srq.queue.arm_limit(attr->srq_limit);
  return 0;
}

RRDMA_VERBS int ibv_query_srq(ibv_srq* abi, ibv_srq_attr* attr) {
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_query_srq, "IBVERBS_1.1", abi, attr);
  if (const int error = refuse_unless_live("ibv_query_srq", abi, validity); error != 0) return error;
  Srq& srq = own(abi);
  std::lock_guard lock(srq.producer);
  *attr = {.max_wr = srq.queue.capacity(), .max_sge = srq.queue.sge_max(), .srq_limit = srq.queue.limit()};
  return 0;
}

RRDMA_VERBS int ibv_destroy_srq(ibv_srq* abi) {
  constexpr const char* kCall = "ibv_destroy_srq";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_destroy_srq, "IBVERBS_1.1", abi);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Srq& srq = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked(kCall);
  {
    std::lock_guard lock(context.lanes->first().mutex());
    if (srq.queue.users != 0)
      return host::fail(EBUSY, kCall, "QPs still use the shared receive queue; destroy them first.");
    if (srq.type == IBV_SRQT_XRC) {
      context.lanes->first().engine().set_xrc_queue(srq.number, nullptr);
      --srq.xrc_domain->users;
      --srq.cq->queue.users;
    }
    --own(srq.pd).root().users;
  }
  context.async_events->withdraw(abi);
  wait_for_acknowledgements(abi->mutex, abi->cond, abi->events_completed, srq.events_reported);
  pthread_mutex_destroy(&abi->mutex);
  pthread_cond_destroy(&abi->cond);
  bury(srq, abi);
  return 0;
}
