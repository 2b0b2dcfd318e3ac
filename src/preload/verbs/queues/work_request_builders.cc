#include "preload/verbs/queues/work_request_builders.h"

#include <cstring>
#include <mutex>

#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/kept_errno.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/work_requests.h"

namespace rrdma::verbs {
namespace {

using objects::SendEntry;
using objects::SendOpcode;

constexpr const char* kCall = "ibv_wr_complete";
// Newer headers call it IBV_QP_EX_WITH_FLUSH and have a member for it. Built with an older header, there is
// no place for the function, so it is not offered.
template <typename QpEx>
constexpr bool kHasFlush = requires(QpEx& qp) {
  qp.wr_flush;
};
constexpr std::uint64_t kWithFlush = kHasFlush<ibv_qp_ex> ? 1u << 11 : 0;

constexpr std::uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUnreliable = kSends | IBV_QP_EX_WITH_RDMA_WRITE |
                                      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                                      IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr std::uint64_t kReliable = kUnreliable | IBV_QP_EX_WITH_RDMA_READ |
                                    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                    kWithFlush | IBV_QP_EX_WITH_ATOMIC_WRITE;

std::uint64_t operations_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND: return kReliable;
    case IBV_QPT_UC: return kUnreliable & ~std::uint64_t{IBV_QP_EX_WITH_SEND_WITH_INV};
    case IBV_QPT_UD: return kSends;
    default: return 0;
  }
}

// Keeps the first error; wr_complete returns it.
void mistake(Qp& qp, int error, const char* sentence) {
  if (qp.stage_error != 0) return;
  qp.stage_error = error;
  host::explain_call(host::Severity::kInfo, kCall, sentence);
}

// The entry that the set calls fill; null after an error or without a request.
SendEntry* current(Qp& qp) {
  return qp.stage_error == 0 && qp.staged != 0 ? &qp.staging->at(qp.staged - 1) : nullptr;
}

SendEntry* begin(ibv_qp_ex* abi, SendOpcode opcode) {
  Qp& qp = own(abi);
  if (qp.stage_error != 0) return nullptr;
  if (qp.staged == qp.staging->capacity()) {
    mistake(qp, ENOMEM, "more requests since ibv_wr_start than the send queue has entries.");
    return nullptr;
  }
  SendEntry& entry = qp.staging->reserve(qp.staged++);
  entry.wr_id = abi->wr_id;
  entry.opcode = opcode;
  entry.flags =
      static_cast<std::uint8_t>(abi->wr_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
  return &entry;
}

void begin_remote(ibv_qp_ex* qp, SendOpcode opcode, std::uint32_t rkey, std::uint64_t address) {
  if (SendEntry* entry = begin(qp, opcode)) {
    entry->rkey = {rkey};
    entry->remote_address = address;
  }
}

void begin_with_word(ibv_qp_ex* qp, SendOpcode opcode, std::uint32_t word) {
  if (SendEntry* entry = begin(qp, opcode)) entry->immediate_or_key = word;
}

// ---- operations ----

void wr_send(ibv_qp_ex* qp) { begin(qp, SendOpcode::kSend); }
void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) {
  begin_with_word(qp, SendOpcode::kSendImmediate, immediate);
}
void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  begin_with_word(qp, SendOpcode::kSendInvalidate, rkey);
}
void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  begin_with_word(qp, SendOpcode::kLocalInvalidate, rkey);
}
void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  begin_remote(qp, SendOpcode::kRead, rkey, address);
}
void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  begin_remote(qp, SendOpcode::kWrite, rkey, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
  begin_remote(qp, SendOpcode::kWriteImmediate, rkey, address);
  if (SendEntry* entry = current(own(qp))) entry->immediate_or_key = immediate;
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                       std::uint64_t swap) {
  begin_remote(qp, SendOpcode::kCompareSwap, rkey, address);
  if (SendEntry* entry = current(own(qp))) entry->atomic = {compare, swap};
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t add) {
  begin_remote(qp, SendOpcode::kFetchAdd, rkey, address);
  if (SendEntry* entry = current(own(qp))) entry->atomic = {add, 0};
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  SendEntry* entry = begin(qp, SendOpcode::kBindWindow);
  if (entry == nullptr) return;
  entry->rkey = {rkey};
  entry->bind = bind_request_of(mw, *info);
  if (mw != nullptr) mw->rkey = objects::MemoryTable::with_variant(mw->rkey, rkey);
}

void wr_send_tso(ibv_qp_ex* qp, void*, std::uint16_t, std::uint16_t) {
  mistake(own(qp), EOPNOTSUPP, "TSO belongs to raw Ethernet QPs, which this device does not have.");
}

// ---- data and addresses of the current request ----

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) {
  SendEntry* entry = current(own(qp));
  if (entry == nullptr) return;
  entry->datagram = {ah != nullptr ? own(ah).handle : nullptr, remote_qkey, remote_qpn};
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t number) {
  if (SendEntry* entry = current(own(qp))) entry->xrc_srq = number;
}

void wr_set_inline_data_list(ibv_qp_ex* abi, std::size_t count, const ibv_data_buf* buffers) {
  Qp& qp = own(abi);
  SendEntry* entry = current(qp);
  if (entry == nullptr) return;
  std::uint8_t* to = qp.staging->inline_data(qp.staged - 1);
  std::size_t length = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (buffers[i].length > qp.staging->inline_max() - length) {
      mistake(qp, EINVAL, "more inline data than max_inline_data of the QP.");
      return;
    }
    std::memcpy(to + length, buffers[i].addr, buffers[i].length);
    length += buffers[i].length;
  }
  entry->flags |= objects::kSendInline;
  entry->length = static_cast<std::uint32_t>(length);
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) {
  const ibv_data_buf buffer{address, length};
  wr_set_inline_data_list(qp, 1, &buffer);
}

void wr_set_sge_list(ibv_qp_ex* abi, std::size_t count, const ibv_sge* list) {
  Qp& qp = own(abi);
  SendEntry* entry = current(qp);
  if (entry == nullptr) return;
  if (count > qp.staging->sge_max()) {
    mistake(qp, EINVAL, "more scatter/gather elements than max_send_sge of the QP.");
    return;
  }
  const auto from = list_of(list, static_cast<int>(count));
  std::copy(from.begin(), from.end(), qp.staging->sges(qp.staged - 1));
  entry->sge_count = static_cast<std::uint8_t>(count);
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
  wr_set_sge_list(qp, 1, &sge);
}

void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, const void* value) {
  begin_remote(qp, SendOpcode::kAtomicWrite, rkey, address);
  const ibv_data_buf buffer{const_cast<void*>(value), 8};
  wr_set_inline_data_list(qp, 1, &buffer);
}

[[maybe_unused]] void wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::size_t length,
                               std::uint8_t type, std::uint8_t level) {
  begin_remote(qp, SendOpcode::kFlush, rkey, address);
  SendEntry* entry = current(own(qp));
  if (entry == nullptr) return;
  entry->length = static_cast<std::uint32_t>(length);
  entry->flush.placement = type;
  entry->flush.selectivity = level;
}

// ---- the list as a whole ----

void wr_start(ibv_qp_ex* abi) {
  Qp& qp = own(abi);
  qp.send_lock.lock();
  qp.staged = 0;
  qp.stage_error = qp.runtime->forked() ? refuse_forked("ibv_wr_start") : 0;
}

transport::PostError post_staged(const CallSite& posted, Qp& qp, std::uint32_t index, Instant now) {
  const SendEntry& entry = qp.staging->at(index);
  transport::SendRequest request{.entry = entry};
  request.entry.posted = posted;
  objects::Sge plain;
  if (entry.is_inline()) {
    plain = {.address = reinterpret_cast<std::uintptr_t>(qp.staging->inline_data(index)),
             .length = entry.length};
    request.list = {&plain, 1};
  } else {
    request.list = qp.staging->list(index);
  }
  return qp.lane->engine().post_send(*qp.engine_qp, request, now);
}

// All or nothing: errors of single requests were found when they were built, and all other errors apply to
// all of them.
int post_all(const CallSite& posted, Qp& qp) {
  KeptErrno kept;
  std::lock_guard lock(qp.lane->mutex());
  const objects::SendQueue& queue = qp.engine_qp->send_queue;
  if (queue.capacity() - (queue.tail() - queue.head()) < qp.staged)
    return kept.set(refuse_post(kCall, qp, transport::PostError::kQueueFull));
  const Instant now = qp.lane->now();
  int error = 0;
  for (std::uint32_t i = 0; i < qp.staged && error == 0; ++i) {
    if (const auto refused = post_staged(posted, qp, i, now); refused != transport::PostError::kNone)
      error = refuse_post(kCall, qp, refused);
  }
  qp.lane->transmit_posted(*qp.engine_qp, now);
  return error == 0 ? 0 : kept.set(error);
}

template <typename QpEx>
void fill_flush(QpEx& qp) {
  if constexpr (kHasFlush<QpEx>) qp.wr_flush = wr_flush;
}

}  // namespace

void wr_abort(ibv_qp_ex* abi) {
  Qp& qp = own(abi);
  qp.staged = 0;
  qp.send_lock.unlock();
}

int wr_complete(ibv_qp_ex* qp) { return wr_complete_from(call_site(), qp); }

int wr_complete_from(const CallSite& posted, ibv_qp_ex* abi) {
  Qp& qp = own(abi);
  int error = qp.stage_error;
  if (error == 0) error = post_all(posted, qp);
  qp.send_lock.unlock();
  if (error != 0) errno = error;
  return error;
}

int check_builders(const char* call, ibv_qp_type type, std::uint64_t operations) {
  if ((operations & ~operations_of(type)) == 0) return 0;
  return host::fail(EOPNOTSUPP, call,
                    "send_ops_flags asks for operations that this QP type or this device does not have.");
}

void fill_builders(Qp& qp, std::uint64_t operations) {
  qp.staging =
      std::make_unique<objects::SendQueue>(qp.cap.max_send_wr, qp.cap.max_send_sge, qp.cap.max_inline_data);
  const auto set = [&](std::uint64_t operation, auto& slot, auto function) {
    if ((operations & operation) != 0) slot = function;
  };
  set(IBV_QP_EX_WITH_SEND, qp.wr_send, wr_send);
  set(IBV_QP_EX_WITH_SEND_WITH_IMM, qp.wr_send_imm, wr_send_imm);
  set(IBV_QP_EX_WITH_SEND_WITH_INV, qp.wr_send_inv, wr_send_inv);
  set(IBV_QP_EX_WITH_RDMA_WRITE, qp.wr_rdma_write, wr_rdma_write);
  set(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, qp.wr_rdma_write_imm, wr_rdma_write_imm);
  set(IBV_QP_EX_WITH_RDMA_READ, qp.wr_rdma_read, wr_rdma_read);
  set(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, qp.wr_atomic_cmp_swp, wr_atomic_cmp_swp);
  set(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, qp.wr_atomic_fetch_add, wr_atomic_fetch_add);
  set(IBV_QP_EX_WITH_LOCAL_INV, qp.wr_local_inv, wr_local_inv);
  set(IBV_QP_EX_WITH_BIND_MW, qp.wr_bind_mw, wr_bind_mw);
  set(IBV_QP_EX_WITH_ATOMIC_WRITE, qp.wr_atomic_write, wr_atomic_write);
  qp.wr_send_tso = wr_send_tso;
  if ((operations & kWithFlush) != 0) fill_flush<ibv_qp_ex>(qp);
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
}

}  // namespace rrdma::verbs
