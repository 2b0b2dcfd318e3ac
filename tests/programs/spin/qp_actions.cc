// Calls about queue pairs, address handles and multicast groups.
#include <algorithm>
#include <cstring>

#include "world.h"

namespace spin {
namespace {

constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC,       IBV_QPT_RC,       IBV_QPT_UC,        IBV_QPT_UD,
                                  IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET};
constexpr std::uint32_t kQkey = 0x11111111;

}  // namespace

void World::make_qp() {
  if (full(qps_)) return;
  const ibv_qp_type type = kTypes[below(std::size(kTypes))];
  ibv_xrcd** xrcd = pick(xrcds_);
  SrqEntry* srq = chance(30) ? pick(srqs_) : nullptr;
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = any_cq();
  attr.recv_cq = any_cq();
  attr.srq = srq != nullptr && srq->xrcd == nullptr &&
                     (type == IBV_QPT_RC || type == IBV_QPT_UD || type == IBV_QPT_UC)
                 ? srq->srq
                 : nullptr;
  attr.cap = {.max_send_wr = below(200),
              .max_recv_wr = below(200),
              .max_send_sge = below(6),
              .max_recv_sge = below(6),
              .max_inline_data = below(600)};
  if (chance(5)) attr.cap.max_send_wr = 1u << 30;
  if (chance(5)) attr.cap.max_recv_sge = 1u << 20;
  attr.qp_type = type;
  attr.sq_sig_all = static_cast<int>(below(2));
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = any_pd();
  if (type == IBV_QPT_XRC_RECV) {
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd != nullptr ? *xrcd : nullptr;
    attr.pd = nullptr;
    attr.send_cq = attr.recv_cq = nullptr;
  }
  const bool builders = chance(50) && type != IBV_QPT_XRC_RECV;
  if (builders) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) {
      attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                             IBV_QP_EX_WITH_BIND_MW;
    }
    if (chance(5)) attr.send_ops_flags |= std::uint64_t{1} << 50;
  }
  ibv_qp* qp = ibv_create_qp_ex(shared_.context, &attr);
  const bool wrong = type == IBV_QPT_RAW_PACKET || attr.send_ops_flags >> 50 != 0 ||
                     (type == IBV_QPT_XRC_RECV && attr.xrcd == nullptr);
  qp = verdicts_.object("ibv_create_qp_ex", qp, wrong ? Expect::kRefusal : Expect::kEither,
                        {EINVAL, EOPNOTSUPP, ENOSYS, ENOMEM, EPERM});
  if (qp != nullptr) qps_.push_back({.qp = qp, .xrcd = attr.xrcd, .builders = builders});
}

void World::destroy_qp(QpEntry* entry) {
  for (; entry->groups != 0; --entry->groups) {
    ibv_gid group{};
    group.raw[0] = 0xff;
    group.raw[15] = static_cast<std::uint8_t>(entry->groups);
    verdicts_.number("ibv_detach_mcast", ibv_detach_mcast(entry->qp, &group, 0), Expect::kSuccess, {});
  }
  verdicts_.number("ibv_destroy_qp", ibv_destroy_qp(entry->qp), Expect::kSuccess, {});
  forget(qps_, entry);
}

void World::drop_qp() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr) return;
  if (entry->groups != 0 && chance(50)) {
    verdicts_.number("ibv_destroy_qp", ibv_destroy_qp(entry->qp), Expect::kRefusal, {EBUSY});
    return;
  }
  destroy_qp(entry);
}

ibv_ah_attr World::any_address_vector() {
  ibv_ah_attr attr{};
  attr.is_global = chance(95) ? 1 : 0;
  attr.port_num = chance(97) ? 1 : 7;
  attr.grh.dgid = shared_.gid;
  attr.grh.sgid_index = chance(97) ? shared_.gid_index : 99;
  attr.grh.hop_limit = static_cast<std::uint8_t>(random());
  attr.grh.flow_label = below(1 << 20);
  if (chance(3)) std::memset(attr.grh.dgid.raw, 0, sizeof attr.grh.dgid.raw);
  return attr;
}

// One step towards a working connection, as a program would make it.
void World::move(ibv_qp* qp, ibv_qp_state state, const ibv_qp* peer) {
  const bool connected = qp->qp_type != IBV_QPT_UD;
  const bool reliable = connected && qp->qp_type != IBV_QPT_UC;
  ibv_qp_attr attr{};
  int mask = IBV_QP_STATE;
  attr.qp_state = state;
  if (state == IBV_QPS_INIT) {
    attr.port_num = 1;
    attr.qkey = kQkey;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (connected ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
  } else if (state == IBV_QPS_RTR && connected) {
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer->qp_num;
    attr.rq_psn = 7;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = shared_.gid;
    attr.ah_attr.grh.sgid_index = shared_.gid_index;
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (reliable && qp->qp_type != IBV_QPT_XRC_SEND) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  } else if (state == IBV_QPS_RTS) {
    attr.sq_psn = 7;
    attr.timeout = 8;
    attr.retry_cnt = 1;
    attr.rnr_retry = 1;
    attr.max_rd_atomic = 4;
    mask |= IBV_QP_SQ_PSN;
    if (reliable) mask |= IBV_QP_TIMEOUT;
    if (reliable && qp->qp_type != IBV_QPT_XRC_RECV)
      mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  // Once the QP receives, an older peer may move it to Error. Nothing else excuses a refusal.
  const bool receives = state == IBV_QPS_RTS;
  const int error = verdicts_.number("ibv_modify_qp", ibv_modify_qp(qp, &attr, mask),
                                     receives ? Expect::kEither : Expect::kSuccess, {EINVAL});
  if (error == 0) return;
  ibv_qp_init_attr unused;
  verdicts_.number("ibv_query_qp", ibv_query_qp(qp, &attr, IBV_QP_STATE, &unused), Expect::kSuccess, {});
  verdicts_.require("ibv_modify_qp", attr.qp_state == IBV_QPS_ERR, "refused what is right");
}

// Moves two QPs of one type from any state to RTS.
void World::connect_pair() {
  QpEntry* one = pick(qps_);
  if (one == nullptr) return;
  const bool xrc = one->qp->qp_type == IBV_QPT_XRC_SEND || one->qp->qp_type == IBV_QPT_XRC_RECV;
  QpEntry* other = one;
  for (QpEntry& entry : qps_) {
    const bool fits = xrc ? entry.qp->qp_type != one->qp->qp_type && (entry.qp->qp_type == IBV_QPT_XRC_SEND ||
                                                                      entry.qp->qp_type == IBV_QPT_XRC_RECV)
                          : entry.qp->qp_type == one->qp->qp_type;
    if (fits && chance(60)) other = &entry;
  }
  if (xrc && other == one) return;
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    move(one->qp, state, other->qp);
    if (other != one) move(other->qp, state, one->qp);
  }
}

// Any state with any mask: usually invalid.
void World::change_qp() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr) return;
  ibv_qp_attr attr{};
  attr.qp_state = static_cast<ibv_qp_state>(below(9));
  attr.cur_qp_state = static_cast<ibv_qp_state>(below(7));
  attr.port_num = static_cast<std::uint8_t>(below(3));
  attr.pkey_index = static_cast<std::uint16_t>(below(2));
  attr.qp_access_flags = below(64);
  attr.ah_attr = any_address_vector();
  attr.path_mtu = static_cast<ibv_mtu>(below(8));
  attr.dest_qp_num = static_cast<std::uint32_t>(random());
  attr.timeout = static_cast<std::uint8_t>(below(40));
  attr.retry_cnt = static_cast<std::uint8_t>(below(10));
  attr.rnr_retry = static_cast<std::uint8_t>(below(10));
  attr.min_rnr_timer = static_cast<std::uint8_t>(below(40));
  attr.max_rd_atomic = static_cast<std::uint8_t>(random());
  attr.max_dest_rd_atomic = static_cast<std::uint8_t>(random());
  int mask = static_cast<int>(below(1 << 22));
  if (chance(60)) mask = IBV_QP_STATE;
  verdicts_.number("ibv_modify_qp", ibv_modify_qp(entry->qp, &attr, mask), Expect::kEither,
                   {EINVAL, ENODATA, EOPNOTSUPP, ENETUNREACH, EHOSTUNREACH, ENODEV, ENOMEM, ETIMEDOUT});
}

void World::query_qp() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr) return;
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  verdicts_.number("ibv_query_qp", ibv_query_qp(entry->qp, &attr, 0x1fffff, &init), Expect::kSuccess, {});
  ibv_ece ece{};
  verdicts_.number("ibv_query_ece", ibv_query_ece(entry->qp, &ece), Expect::kRefusal, {EOPNOTSUPP});
  ece.vendor_id = below(2);
  verdicts_.number("ibv_set_ece", ibv_set_ece(entry->qp, &ece), Expect::kEither, {EINVAL, EOPNOTSUPP});
}

void World::attach_group() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr || entry->groups >= 3) return;
  ibv_gid group{};
  group.raw[0] = chance(90) ? 0xff : 0xfe;
  group.raw[15] = static_cast<std::uint8_t>(entry->groups + 1);
  const bool right = entry->qp->qp_type == IBV_QPT_UD && group.raw[0] == 0xff;
  const int answer = ibv_attach_mcast(entry->qp, &group, 0);
  if (verdicts_.number("ibv_attach_mcast", answer, right ? Expect::kEither : Expect::kRefusal,
                       {EINVAL, ENOMEM, ENODEV, EADDRNOTAVAIL, ENOBUFS}) == 0) {
    ++entry->groups;
  }
  group.raw[15] = 200;
  verdicts_.number("ibv_detach_mcast", ibv_detach_mcast(entry->qp, &group, 0), Expect::kRefusal, {EINVAL});
}

void World::make_ah() {
  if (full(ahs_)) return;
  ibv_ah_attr attr = any_address_vector();
  const bool wrong = attr.is_global == 0 || attr.port_num != 1 || attr.grh.sgid_index == 99;
  ibv_ah* ah = verdicts_.object("ibv_create_ah", ibv_create_ah(any_pd(), &attr),
                                wrong ? Expect::kRefusal : Expect::kEither,
                                {EINVAL, ENODATA, ENETUNREACH, EHOSTUNREACH, ENODEV, ETIMEDOUT});
  if (ah != nullptr) ahs_.push_back(ah);
}

void World::drop_ah() {
  ibv_ah** ah = pick(ahs_);
  if (ah == nullptr) return;
  verdicts_.number("ibv_destroy_ah", ibv_destroy_ah(*ah), Expect::kSuccess, {});
  forget(ahs_, ah);
}

}  // namespace spin
