// Queue pairs: creation and destruction. State changes are in queue_pair_state.cc, requests in
// work_requests.cc and work_request_builders.cc.
#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/format.h"
#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/work_request_builders.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

constexpr std::uint32_t kSgeOctets = sizeof(ibv_sge);
// ibv_wr_atomic_write carries its value inline.
constexpr std::uint32_t kAtomicOctets = 8;

bool is_known_type(ibv_qp_type type) {
  return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND ||
         type == IBV_QPT_XRC_RECV;
}

// No device attribute reports the limit, so libraries probe for it with QP after QP. A failure after a
// successful creation is such a probe; a failure before any is an error.
std::atomic<bool> some_qp_made{false};

int refuse_inline(const char* call) {
  constexpr const char* kSentence = "max_inline_data is more than 1024.";
  return some_qp_made ? host::lacks(EINVAL, call, kSentence) : host::fail(EINVAL, call, kSentence);
}

int check_form(const char* call, const ibv_qp_init_attr_ex& attr) {
  const ibv_qp_cap& cap = attr.cap;
  if (!is_known_type(attr.qp_type)) {
    return host::fail(EOPNOTSUPP, call, "the QP type is not one of RC, UC, UD, XRC_SEND and XRC_RECV.");
  }
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    return (attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && attr.xrcd != nullptr
               ? 0
               : host::fail(EINVAL, call, "an XRC_RECV QP needs an XRC domain (IBV_QP_INIT_ATTR_XRCD).");
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) {
    return host::fail(EINVAL, call, "a protection domain is needed (IBV_QP_INIT_ATTR_PD).");
  }
  if (attr.send_cq == nullptr || (attr.recv_cq == nullptr && attr.qp_type != IBV_QPT_XRC_SEND)) {
    return host::fail(EINVAL, call, "send_cq or recv_cq is null.");
  }
  const std::uint32_t depth = limit_of(attr.pd->context, "max_qp_wr", kQueueDepthMax);
  if (cap.max_send_wr > depth || cap.max_recv_wr > depth) {
    return host::fail(
        EINVAL, call,
        formatted("max_send_wr is {} and max_recv_wr {}, but max_qp_wr of ibv_query_device is {}.",
                  cap.max_send_wr, cap.max_recv_wr, depth));
  }
  const std::uint32_t pieces = limit_of(attr.pd->context, "max_sge", kSgeMax);
  if (cap.max_send_sge > pieces || cap.max_recv_sge > pieces) {
    return host::fail(
        EINVAL, call,
        formatted("max_send_sge is {} and max_recv_sge {}, but max_sge of ibv_query_device is {}.",
                  cap.max_send_sge, cap.max_recv_sge, pieces));
  }
  if (cap.max_inline_data > kInlineMax) return refuse_inline(call);
  return 0;
}

int check_extensions(const char* call, const ibv_qp_init_attr_ex& attr) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attr.comp_mask & ~kKnown) != 0) {
    return host::fail(EOPNOTSUPP, call,
                      "comp_mask asks for TSO, RSS or something unknown, which this device does not have.");
  }
  constexpr std::uint32_t kKnownFlags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && (attr.create_flags & ~kKnownFlags) != 0) {
    return host::fail(EOPNOTSUPP, call,
                      "create_flags asks for something that only raw Ethernet QPs of hardware have.");
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0)
    return check_builders(call, attr.qp_type, attr.send_ops_flags);
  return 0;
}

// Without a receive queue of its own (SRQ, XRC) the sizes are 0.
void settle_sizes(ibv_qp_init_attr_ex& attr) {
  ibv_qp_cap& cap = attr.cap;
  const bool receives =
      attr.srq == nullptr && attr.qp_type != IBV_QPT_XRC_SEND && attr.qp_type != IBV_QPT_XRC_RECV;
  if (!receives) cap.max_recv_wr = cap.max_recv_sge = 0;
  if (attr.qp_type == IBV_QPT_XRC_RECV) cap = {};
  if (cap.max_send_wr != 0) cap.max_send_sge = std::max(cap.max_send_sge, 1u);
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0)
    cap.max_inline_data = std::max(cap.max_inline_data, kAtomicOctets);
  // A work request has room for its list of SGEs. NICs let programs use that room for inline data even if
  // they did not ask for it, and some never ask (rdma_xclient).
  if (cap.max_send_wr != 0)
    cap.max_inline_data = std::max(cap.max_inline_data, std::min(cap.max_send_sge * kSgeOctets, kInlineMax));
  if (cap.max_recv_wr != 0) cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
}

// The objects that the QP refers to must be alive and of its context.
int check_parts(const char* call, const ibv_context* context, const ibv_qp_init_attr_ex& attr) {
  if (attr.qp_type == IBV_QPT_XRC_RECV) return check_argument(call, attr.xrcd, context);
  if (const int error = check_argument(call, attr.pd, context); error != 0) return error;
  if (const int error = check_argument(call, attr.send_cq, context); error != 0) return error;
  if (attr.recv_cq != nullptr) {
    if (const int error = check_argument(call, attr.recv_cq, context); error != 0) return error;
  }
  return attr.srq != nullptr ? check_argument(call, attr.srq, context) : 0;
}

objects::ProtectionDomain& domain_of(Qp& qp, const ibv_qp_init_attr_ex& attr) {
  return attr.pd != nullptr ? own(attr.pd).root() : qp.xrc_domain->domain;
}

transport::QpInit engine_form(Qp& qp, const Context& context, const ibv_qp_init_attr_ex& attr) {
  return {.type = static_cast<transport::QpType>(attr.qp_type),
          .pd = &domain_of(qp, attr),
          .send_cq = attr.send_cq != nullptr ? &own(attr.send_cq).queue : nullptr,
          .receive_cq = attr.recv_cq != nullptr ? &own(attr.recv_cq).queue : nullptr,
          .shared_receive_queue = attr.srq != nullptr ? &own(attr.srq).queue : nullptr,
          .send_entries = attr.cap.max_send_wr,
          .receive_entries = attr.cap.max_recv_wr,
          .send_sges = attr.cap.max_send_sge,
          .receive_sges = attr.cap.max_recv_sge,
          .inline_octets = attr.cap.max_inline_data,
          .signal_all = qp.signal_all,
          .device = context.device_number,
          .xrc_domain = qp.xrc_domain,
          .owner = &qp};
}

// Fills the fields that the program may read.
void fill_abi(ibv_context* context, const ibv_qp_init_attr_ex& attr, wire::Qpn qpn, ibv_qp& abi) {
  abi.context = context;
  abi.qp_context = attr.qp_context;
  abi.pd = attr.pd;
  abi.send_cq = attr.send_cq;
  abi.recv_cq = attr.recv_cq;
  abi.srq = attr.srq;
  abi.handle = abi.qp_num = qpn.value;
  abi.state = IBV_QPS_RESET;
  abi.qp_type = attr.qp_type;
  pthread_mutex_init(&abi.mutex, nullptr);
  pthread_cond_init(&abi.cond, nullptr);
}

// Keeps the number of requests that may complete into each queue.
void count_requests(const Qp& qp, bool more) {
  const auto count = [&](ibv_cq* cq, std::uint32_t requests) {
    if (cq != nullptr)
      own(cq).requests_max.fetch_add(more ? requests : 0 - requests, std::memory_order_relaxed);
  };
  count(qp.qp_base.send_cq, qp.cap.max_send_wr);
  count(qp.qp_base.recv_cq, qp.cap.max_recv_wr);
}

// The lanes that it may be in, and the queues that decide (nic/process/lanes.h).
nic::Lanes::Wish wish_for(const ibv_qp_init_attr_ex& attr) {
  const bool connected = attr.qp_type == IBV_QPT_RC || attr.qp_type == IBV_QPT_UC;
  return {.send = attr.send_cq != nullptr ? &own(attr.send_cq).lanes : nullptr,
          .receive = attr.recv_cq != nullptr ? &own(attr.recv_cq).lanes : nullptr,
          .free = connected && attr.srq == nullptr};
}

// Chooses its lane, locks it, and takes a number there.
Result<wire::Qpn, Problem> enter_lane(Qp& qp, nic::Lanes& lanes, const ibv_qp_init_attr_ex& attr,
                                      std::unique_lock<nic::LaneLock>& lock) {
  const nic::Lanes::Wish wish = wish_for(attr);
  nic::Lane* lane = &lanes.assign(wish);
  for (std::size_t other = 0;; ++other) {
    lock = std::unique_lock(lane->mutex());
    qp.lane = lane;
    auto qpn = lane->allocate_qpn();
    if (qpn.ok()) return qpn;
    lock.unlock();
    lane = lanes.assign_number(wish, other);
    if (lane == nullptr) return qpn;
  }
}

Qp* create_qp(const char* call, ibv_context* context, ibv_qp_init_attr_ex& attr) {
  Context& owner = own(context);
  if (owner.forked()) {
    refuse_forked(call);
    return nullptr;
  }
  if (check_extensions(call, attr) != 0 || check_form(call, attr) != 0) return nullptr;
  if (check_parts(call, context, attr) != 0) return nullptr;
  Place place(call, ObjectKind::kQp, context);
  if (!place.granted()) return nullptr;
  settle_sizes(attr);
  auto qp = std::make_unique<Qp>();
  qp->runtime = owner.runtime;
  qp->cap = attr.cap;
  qp->signal_all = attr.sq_sig_all != 0;
  qp->xrc_domain = attr.qp_type == IBV_QPT_XRC_RECV ? &own(attr.xrcd) : nullptr;
  const transport::QpInit init = engine_form(*qp, owner, attr);
  std::unique_lock<nic::LaneLock> lock;
  const auto qpn = enter_lane(*qp, *owner.lanes, attr, lock);
  if (!qpn) {
    host::fail(qpn.error().error, call, qpn.error().sentence);
    return nullptr;
  }
  try {
    qp->engine_qp = &qp->lane->engine().create_qp(init, *qpn);
  } catch (const std::bad_alloc&) {
    host::fail(ENOMEM, call, "no memory for queues of that size.");
    return nullptr;
  }
  qp->engine_qp->port_mtu = transport::mtu_octets(owner.nic_device->port().mtu_code);
  if (qp->xrc_domain != nullptr) ++qp->xrc_domain->users;
  fill_abi(context, attr, *qpn, qp->qp_base);
  count_requests(*qp, true);
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
    qp->has_builders = true;
    fill_builders(*qp, attr.send_ops_flags);
  }
  place.settle(&qp->qp_base);
  some_qp_made = true;
  host::explain_forgiven(call);
  return qp.release();
}

}  // namespace

void purge_completions(const ibv_qp& abi) {
  for (ibv_cq* cq : {abi.send_cq, abi.recv_cq}) {
    if (cq == nullptr) continue;
    std::lock_guard consumer(own(cq).consumer);
    own(cq).queue.purge(wire::Qpn(abi.qp_num));
  }
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  if (inject("ibv_create_qp_ex", context) != 0) return nullptr;
  Qp* qp = create_qp("ibv_create_qp_ex", context, *attr);
  if (qp != nullptr) note_made(*qp);
  return qp != nullptr ? qp->abi() : nullptr;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  const ObjectValidity validity = validity_of(pd);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(nullptr, ibv_create_qp, "IBVERBS_1.1", pd, attr);
  if (refuse_unless_live("ibv_create_qp", pd, validity) != 0) return nullptr;
  ibv_qp_init_attr_ex full{};
  full.qp_context = attr->qp_context;
  full.send_cq = attr->send_cq;
  full.recv_cq = attr->recv_cq;
  full.srq = attr->srq;
  full.cap = attr->cap;
  full.qp_type = attr->qp_type;
  full.sq_sig_all = attr->sq_sig_all;
  full.comp_mask = IBV_QP_INIT_ATTR_PD;
  full.pd = pd;
  Qp* qp = create_qp("ibv_create_qp", pd->context, full);
  if (qp == nullptr) return nullptr;
  note_made(*qp);
  attr->cap = full.cap;
  return qp->abi();
}

RRDMA_VERBS int ibv_destroy_qp(ibv_qp* abi) {
  constexpr const char* kCall = "ibv_destroy_qp";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_destroy_qp, "IBVERBS_1.1", abi);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Qp& qp = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked(kCall);
  {
    std::lock_guard lock(qp.lane->mutex());
    if (qp.multicast_groups != 0)
      return host::fail(EBUSY, kCall, "the QP is attached to multicast groups; detach it first.");
    qp.lane->send_held();
    qp.lane->engine().destroy_qp(*qp.engine_qp);
    if (qp.xrc_domain != nullptr) --qp.xrc_domain->users;
    purge_completions(*abi);
    count_requests(qp, false);
  }
  context.async_events->withdraw(abi);
  wait_for_acknowledgements(abi->mutex, abi->cond, abi->events_completed, qp.events_reported);
  pthread_mutex_destroy(&abi->mutex);
  pthread_cond_destroy(&abi->cond);
  bury(qp, abi);
  return 0;
}

RRDMA_VERBS ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (!is_own(qp->context)) RRDMA_PASS_ON(nullptr, ibv_qp_to_qp_ex, "IBVERBS_1.6", qp);
  return own(qp).has_builders ? &own(qp) : nullptr;
}
