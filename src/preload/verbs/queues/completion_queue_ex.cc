// Extended polling: one completion at a time, read field by field. The consumer lock is held from a
// successful ibv_start_poll to ibv_end_poll, unless the program promised to use one thread.
#include <infiniband/verbs.h>

#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/injected_calls.h"
#include "preload/verbs/kept_errno.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/completion_queue.h"

namespace rrdma::verbs {
namespace {

constexpr std::uint64_t kReadable = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

// Moves the oldest completion to the place that the read functions use.
bool take_next(Cq& cq) {
  const objects::Completion* next = cq.queue.peek();
  if (next == nullptr) return false;
  cq.current = *next;
  cq.current.timestamp_ns = cq.clock.order(cq.current.timestamp_ns);
  cq.queue.pop();
  cq.wr_id = cq.current.wr_id;
  cq.status = static_cast<ibv_wc_status>(cq.current.status);
  return true;
}

}  // namespace

int start_poll(ibv_cq_ex* abi, ibv_poll_cq_attr* attr) {
  Cq& cq = own(abi);
  if (attr != nullptr && attr->comp_mask != 0) {
    return host::fail(EINVAL, "ibv_start_poll", "comp_mask has unknown bits; it must be 0.");
  }
  if (cq.runtime.forked()) [[unlikely]]
    return refuse_forked("ibv_start_poll");
  const KeptErrno kept;
  cq.passage.lock(cq.consumer);
  bool taken = take_next(cq);
  if (!taken) {
    cq.consumer.unlock();
    cq.lanes.poll();
    cq.passage.lock(cq.consumer);
    taken = take_next(cq);
  }
  if (taken) {
    cq.idle_polls.note_busy();
    return 0;
  }
  cq.consumer.unlock();
  cq.note_idle_poll();
  return ENOENT;
}

// The consumer's lock is held, under which lanes must not make progress: the next start_poll does that.
int next_poll(ibv_cq_ex* abi) {
  Cq& cq = own(abi);
  return !cq.passage.is_due() && take_next(cq) ? 0 : ENOENT;
}

namespace {

void end_poll(ibv_cq_ex* abi) { own(abi).consumer.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(own(cq).current.opcode); }
std::uint32_t read_vendor_err(ibv_cq_ex* cq) { return own(cq).current.vendor_err; }
std::uint32_t read_byte_len(ibv_cq_ex* cq) { return own(cq).current.byte_length; }
__be32 read_imm_data(ibv_cq_ex* cq) { return own(cq).current.immediate_or_key; }
std::uint32_t read_qp_num(ibv_cq_ex* cq) { return own(cq).current.qpn.value; }
std::uint32_t read_src_qp(ibv_cq_ex* cq) { return own(cq).current.source_qpn.value; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return own(cq).current.flags; }
std::uint32_t read_slid(ibv_cq_ex*) { return 0; }
std::uint8_t read_sl(ibv_cq_ex* cq) { return own(cq).current.service_level; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }
std::uint64_t read_completion_ts(ibv_cq_ex* cq) {
  return static_cast<std::uint64_t>(own(cq).current.timestamp_ns);
}

std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* abi) {
  Cq& cq = own(abi);
  return static_cast<std::uint64_t>(cq.clock.wall_ns(cq.current.timestamp_ns, host::wall_offset_ns()));
}

std::uint16_t read_cvlan(ibv_cq_ex*) { return 0; }
std::uint32_t read_flow_tag(ibv_cq_ex*) { return 0; }
void read_tm_info(ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; }

void fill_readers(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
  cq.read_cvlan = read_cvlan;
  cq.read_flow_tag = read_flow_tag;
  cq.read_tm_info = read_tm_info;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  if (inject("ibv_create_cq_ex", context) != 0) return nullptr;
  constexpr const char* kCall = "ibv_create_cq_ex";
  constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr std::uint32_t kKnownFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  if ((attr->comp_mask & ~kKnownMask) != 0) {
    host::fail(EOPNOTSUPP, kCall, "comp_mask has unknown bits.");
    return nullptr;
  }
  if ((attr->wc_flags & ~kReadable) != 0) {
    host::fail(EOPNOTSUPP, kCall,
               "wc_flags asks for VLAN, flow tag or tag matching, which this device does not have.");
    return nullptr;
  }
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr->flags & ~kKnownFlags) != 0) {
    host::fail(EOPNOTSUPP, kCall,
               "flags asks for IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: a CQ here always notices an overrun.");
    return nullptr;
  }
  Cq* cq = create_cq(kCall, context,
                     {.entries = attr->cqe,
                      .user_context = attr->cq_context,
                      .channel = attr->channel,
                      .vector = static_cast<int>(attr->comp_vector)});
  if (cq == nullptr) return nullptr;
  cq->extended = true;
  cq->wc_flags = attr->wc_flags;
  fill_readers(*cq);
  note_made(*cq);
  return cq;
}

}  // namespace rrdma::verbs
