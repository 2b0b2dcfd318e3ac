#include "preload/verbs/queues/work_requests.h"

#include <mutex>
#include <string>

#include "base/format.h"
#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/kept_errno.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"

namespace rrdma::verbs {
namespace {

using objects::SendOpcode;
using transport::PostError;

constexpr unsigned kSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

// False: the operation does not exist here.
bool translate(const ibv_send_wr& wr, const Qp& qp, objects::SendEntry& entry) {
  entry.wr_id = wr.wr_id;
  entry.opcode = static_cast<SendOpcode>(wr.opcode);
  entry.flags = static_cast<std::uint8_t>(wr.send_flags & kSendFlags);
  entry.immediate_or_key = wr.imm_data;
  const bool is_send = wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM;
  // Only a SEND has an address handle: wr.ud shares a union with the fields of the others.
  if (qp.qp_base.qp_type == IBV_QPT_UD && is_send) {
    if (wr.wr.ud.ah == nullptr) return true;  // the engine reports the error
    entry.datagram.handle = own(wr.wr.ud.ah).handle;
    entry.datagram.qkey = wr.wr.ud.remote_qkey;
    entry.datagram.remote_qpn = wr.wr.ud.remote_qpn;
    return true;
  }
  if (qp.qp_base.qp_type == IBV_QPT_XRC_SEND) entry.xrc_srq = wr.qp_type.xrc.remote_srqn;
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_WRITE:
      entry.remote_address = wr.wr.rdma.remote_addr;
      entry.rkey = {wr.wr.rdma.rkey};
      return true;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV: return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      entry.remote_address = wr.wr.atomic.remote_addr;
      entry.rkey = {wr.wr.atomic.rkey};
      entry.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
      return true;
    case IBV_WR_BIND_MW:
      entry.rkey = {wr.bind_mw.rkey};
      entry.bind = bind_request_of(wr.bind_mw.mw, wr.bind_mw.bind_info);
      return true;
    default: return false;
  }
}

// Posting a bind determines the window's key; the program chose its low byte. A bind that will complete in
// error may name no window.
void tell_key(const ibv_send_wr& wr) {
  if (wr.bind_mw.mw == nullptr) return;
  wr.bind_mw.mw->rkey = objects::MemoryTable::with_variant(wr.bind_mw.mw->rkey, wr.bind_mw.rkey);
}

PostError post_one(const CallSite& posted, Qp& qp, const ibv_send_wr& wr, Instant now) {
  if (wr.num_sge < 0 || wr.num_sge > static_cast<int>(kSgeMax)) return PostError::kTooManySges;
  transport::Engine& engine = qp.lane->engine();
  objects::SendEntry& entry = engine.next_entry(*qp.engine_qp);
  entry.posted = posted;
  if (!translate(wr, qp, entry)) return PostError::kOperationNotSupported;
  const bool has_list = wr.opcode != IBV_WR_LOCAL_INV && wr.opcode != IBV_WR_BIND_MW;
  const auto list = has_list ? list_of(wr.sg_list, wr.num_sge) : std::span<const objects::Sge>{};
  const PostError error = engine.post_entry(*qp.engine_qp, entry, list, now);
  if (error == PostError::kNone && wr.opcode == IBV_WR_BIND_MW) tell_key(wr);
  return error;
}

}  // namespace

objects::BindRequest bind_request_of(ibv_mw* mw, const ibv_mw_bind_info& info) {
  return {mw != nullptr ? own(mw).window : nullptr, info.mr != nullptr ? own(info.mr).region : nullptr,
          info.addr, info.length, info.mw_access_flags & ~unsigned{IBV_ACCESS_LOCAL_WRITE}};
}

namespace {

std::string post_error_text(const Qp& qp, PostError error, bool receives) {
  const std::uint32_t qpn = qp.qp_base.qp_num;
  const transport::QueuePair& engine = *qp.engine_qp;
  switch (error) {
    case PostError::kQueueFull:
      return formatted(
          "the {} queue of QP {:#08x} is full: it holds {} requests. Poll completions before posting more, "
          "or "
          "create the QP with a larger {}.",
          receives ? "receive" : "send", qpn, receives ? qp.cap.max_recv_wr : qp.cap.max_send_wr,
          receives ? "max_recv_wr" : "max_send_wr");
    case PostError::kWrongState:
      return formatted("QP {:#08x} is in state {}: {}.", qpn, transport::describe(engine.state),
                       receives ? "receives need INIT or later; call ibv_modify_qp before you post"
                                : "sends need RTS; call ibv_modify_qp for INIT, RTR and RTS before you post");
    case PostError::kTooManySges:
      return formatted("the request has more scatter/gather elements than QP {:#08x} takes ({} = {}).", qpn,
                       receives ? "max_recv_sge" : "max_send_sge",
                       receives ? qp.cap.max_recv_sge : qp.cap.max_send_sge);
    case PostError::kInlineTooLong:
      return formatted("the request has more inline data than QP {:#08x} takes (max_inline_data = {}).", qpn,
                       qp.cap.max_inline_data);
    case PostError::kMessageTooLong:
      return qp.qp_base.qp_type == IBV_QPT_UD
                 ? formatted(
                       "the message is longer than one path MTU of {} bytes, which a UD QP sends at most.",
                       engine.mtu)
                 : formatted("the message is longer than max_msg_sz of {} bytes.",
                             transport::kMessageOctetsMax);
    case PostError::kOperationNotSupported:
      return formatted("a QP of type {} has no such operation.", transport::describe(engine.type));
    default: return std::string(transport::describe(error)) + ".";
  }
}

}  // namespace

int refuse_post(const char* call, const Qp& qp, PostError error) {
  const int number = error == PostError::kQueueFull ? ENOMEM : EINVAL;
  const bool receives = std::string_view(call) == "ibv_post_recv";
  return host::fail(number, call, post_error_text(qp, error, receives));
}

namespace {

// Inlined: a call of its own would cost every post as much as taking the return address does.
[[gnu::always_inline]] inline int post_sends(const CallSite& posted, ibv_qp* abi, ibv_send_wr* wr,
                                             ibv_send_wr** bad) {
  Qp& qp = own(abi);
  if (qp.runtime->forked()) [[unlikely]] {
    if (bad != nullptr) *bad = wr;
    return refuse_forked("ibv_post_send");
  }
  PostError error = PostError::kNone;
  {
    const KeptErrno kept;
    std::lock_guard lock(qp.lane->mutex());
    const Instant now = qp.lane->now();
    for (; wr != nullptr; wr = wr->next) {
      error = post_one(posted, qp, *wr, now);
      if (error != PostError::kNone) break;
    }
    qp.lane->transmit_posted(*qp.engine_qp, now);
  }
  if (error == PostError::kNone) return 0;
  if (bad != nullptr) *bad = wr;
  return refuse_post("ibv_post_send", qp, error);
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) { return post_sends(call_site(), qp, wr, bad); }

int post_send_from(const CallSite& posted, ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  return post_sends(posted, qp, wr, bad);
}

int post_recv(ibv_qp* abi, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Qp& qp = own(abi);
  if (qp.runtime->forked()) [[unlikely]] {
    if (bad != nullptr) *bad = wr;
    return refuse_forked("ibv_post_recv");
  }
  PostError error = PostError::kNone;
  {
    const KeptErrno kept;
    std::lock_guard lock(qp.lane->mutex());
    transport::Engine& engine = qp.lane->engine();
    // Only a flushed request needs the time, and reading the clock costs as much as posting.
    const Instant now = qp.engine_qp->state == transport::QpState::kError ? host::now() : Instant{};
    for (; wr != nullptr; wr = wr->next) {
      error = wr->num_sge < 0
                  ? PostError::kTooManySges
                  : engine.post_receive(*qp.engine_qp, wr->wr_id, list_of(wr->sg_list, wr->num_sge), now);
      if (error != PostError::kNone) break;
    }
  }
  if (error == PostError::kNone) return 0;
  if (bad != nullptr) *bad = wr;
  return refuse_post("ibv_post_recv", qp, error);
}

}  // namespace rrdma::verbs
