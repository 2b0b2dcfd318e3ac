// Queue pairs: modifying and querying their state and attributes. transport/qp/qp_state.h decides which
// attributes a transition may and must have. This file translates the ABI's structures and resolves
// addresses.
#include <infiniband/verbs.h>

#include <mutex>
#include <string>

#include "base/format.h"
#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/address.h"
#include "preload/verbs/queues/qp_attributes.h"
#include "preload/verbs/real_library.h"
#include "transport/qp/qp_state.h"

namespace rrdma::verbs {
namespace {

constexpr const char* kModify = "ibv_modify_qp";

unsigned octets_of(unsigned mtu_code) { return 128u << mtu_code; }

std::string large_mtu_text(const host::Device& device, const host::PortStatus& port, ibv_mtu wanted) {
  return formatted(
      "path_mtu is {}, larger than active_mtu {} ({} has an MTU of {} bytes); use IBV_MTU_{} or less, or "
      "raise the MTU of "
      "both interfaces.",
      octets_of(wanted), octets_of(port.mtu_code), device.identity().interface, port.interface_mtu,
      octets_of(port.mtu_code));
}

// Checks that the state table lacks: the port's own limits.
int check_port_limits(const Context& context, const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_PORT) != 0 && attr.port_num != kPort)
    return host::fail(EINVAL, kModify,
                      formatted("port_num is {}, and the device has one port, number 1.", attr.port_num));
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr.pkey_index != 0)
    return host::fail(EINVAL, kModify,
                      formatted("pkey_index is {}, and the table has one entry, index 0.", attr.pkey_index));
  const host::PortStatus port = context.nic_device->port();
  if ((mask & IBV_QP_PATH_MTU) != 0 && attr.path_mtu > static_cast<ibv_mtu>(port.mtu_code) &&
      attr.path_mtu <= IBV_MTU_4096) {
    return host::fail(EINVAL, kModify, large_mtu_text(*context.nic_device, port, attr.path_mtu));
  }
  constexpr int kNotOffered = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT | IBV_QP_CAP;
  if ((mask & kNotOffered) != 0) {
    return host::fail(EOPNOTSUPP, kModify,
                      "alternate paths, rate limits and resizing of a QP are not offered.");
  }
  return 0;
}

// Resolves the QP's path, if the call sets it. May block.
int resolve_path(Qp& qp, const ibv_qp_attr& attr, int mask, transport::QpAttributes& to) {
  nic::PathRequest request;
  if (const int error = path_request_of(kModify, own(qp.qp_base.context), attr.ah_attr, request); error != 0)
    return error;
  request.local_qpn = wire::Qpn(qp.qp_base.qp_num);
  request.remote_qpn = (mask & IBV_QP_DEST_QPN) != 0 ? to.destination : qp.engine_qp->remote;
  auto path = qp.lane->resolve(*own(qp.qp_base.context).nic_device, request);
  if (!path) return host::fail(path.error().error, kModify, path.error().sentence);
  to.path = *path;
  return 0;
}

int modify(Qp& qp, const ibv_qp_attr& attr, int mask) {
  Context& context = own(qp.qp_base.context);
  if (context.forked()) return refuse_forked(kModify);
  if (const int error = check_port_limits(context, attr, mask); error != 0) return error;
  transport::QpAttributes to = attributes_of(attr);
  const auto bits = static_cast<std::uint32_t>(mask);
  {
    // Check the rest before resolving the path, which may take long.
    std::lock_guard lock(qp.lane->mutex());
    if (auto checked = transport::check_transition(qp.engine_qp->type, qp.engine_qp->state, to, bits);
        !checked) {
      return host::fail(EINVAL, kModify, transport::explain(checked.error(), to));
    }
  }
  if ((mask & IBV_QP_AV) != 0) {
    if (const int error = resolve_path(qp, attr, mask, to); error != 0) return error;
  }
  std::lock_guard lock(qp.lane->mutex());
  qp.lane->send_held();
  const Instant now = host::now();
  if (auto changed = qp.lane->engine().modify_qp(*qp.engine_qp, to, bits, now); !changed) {
    return host::fail(EINVAL, kModify, transport::explain(changed.error(), to));
  }
  if ((mask & IBV_QP_AV) != 0) {
    qp.address = attr.ah_attr;
    if (attr.ah_attr.is_global != 0) qp.address.grh.hop_limit = to.path.hop_limit;
  }
  qp.qp_base.state = static_cast<ibv_qp_state>(qp.engine_qp->state);
  if (qp.qp_base.state == IBV_QPS_RESET) purge_completions(qp.qp_base);
  qp.lane->transmit(now);
  return 0;
}

void describe(const Qp& qp, ibv_qp_attr& attr) {
  const transport::QueuePair& engine = *qp.engine_qp;
  const transport::QpAttributes& from = engine.attributes;
  attr = {};
  attr.qp_state = attr.cur_qp_state = static_cast<ibv_qp_state>(engine.state);
  attr.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  attr.path_mig_state = IBV_MIG_MIGRATED;
  attr.qkey = from.qkey.value;
  attr.rq_psn = engine.resp.expected.value;
  attr.sq_psn = engine.req.next.value;
  attr.dest_qp_num = engine.remote.value;
  attr.qp_access_flags = engine.access_flags;
  attr.cap = qp.cap;
  attr.ah_attr = qp.address;
  attr.pkey_index = from.pkey_index;
  attr.en_sqd_async_notify = from.drain_notify ? 1 : 0;
  attr.sq_draining = engine.state == transport::QpState::kDrain && !engine.send_queue.empty() ? 1 : 0;
  attr.max_rd_atomic = from.max_reads;
  attr.max_dest_rd_atomic = from.max_destination_reads;
  attr.min_rnr_timer = from.min_rnr_timer;
  attr.port_num = from.port;
  attr.timeout = from.timeout;
  attr.retry_cnt = from.retry_count;
  attr.rnr_retry = from.rnr_retry;
}

}  // namespace
}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const ObjectValidity validity = validity_of(qp);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_modify_qp, "IBVERBS_1.1", qp, attr, mask);
  if (const int error = refuse_unless_live(kModify, qp, validity); error != 0) return error;
  return modify(own(qp), *attr, mask);
}

RRDMA_VERBS int ibv_query_qp(ibv_qp* abi, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  constexpr const char* kCall = "ibv_query_qp";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_query_qp, "IBVERBS_1.1", abi, attr, mask, init);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Qp& qp = own(abi);
  if (qp.runtime->forked()) return refuse_forked(kCall);
  std::lock_guard lock(qp.lane->mutex());
  describe(qp, *attr);
  abi->state = attr->qp_state;
  *init = {.qp_context = abi->qp_context,
           .send_cq = abi->send_cq,
           .recv_cq = abi->recv_cq,
           .srq = abi->srq,
           .cap = qp.cap,
           .qp_type = abi->qp_type,
           .sq_sig_all = qp.signal_all ? 1 : 0};
  return 0;
}

RRDMA_VERBS int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags) {
  if (!is_own(qp->context)) RRDMA_PASS_ON(0, ibv_query_qp_data_in_order, "IBVERBS_1.14", qp, opcode, flags);
  return 0;  // the last bytes are written last; no further order is guaranteed
}

// Extended connection establishment: vendor-specific options between two ends. There are none.
RRDMA_VERBS int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (!is_own(qp->context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_set_ece, "IBVERBS_1.10", qp, ece);
  if (ece->vendor_id == 0) return 0;
  return host::fail(EOPNOTSUPP, "ibv_set_ece", "this device has no ECE options; pass vendor_id 0.");
}

RRDMA_VERBS int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (!is_own(qp->context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_query_ece, "IBVERBS_1.10", qp, ece);
  *ece = {};
  return host::lacks(EOPNOTSUPP, "ibv_query_ece", "this device has no ECE options.");
}
