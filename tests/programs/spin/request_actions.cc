// Valid and invalid work requests, by ibv_post_* and by ibv_wr_*.
#include "world.h"

namespace spin {

void World::post_send() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr) return;
  ibv_sge list[4] = {any_sge(), any_sge(), any_sge(), any_sge()};
  ibv_send_wr requests[3] = {};
  const std::uint32_t count = 1 + below(3);
  for (std::uint32_t i = 0; i < count; ++i) {
    ibv_send_wr& wr = requests[i];
    wr.wr_id = random();
    wr.next = i + 1 < count ? &requests[i + 1] : nullptr;
    wr.sg_list = list;
    wr.num_sge = chance(97) ? static_cast<int>(below(4)) : static_cast<int>(below(2)) * 1000 - 1;
    wr.opcode = static_cast<ibv_wr_opcode>(chance(95) ? below(12) : below(100));
    wr.send_flags = below(32);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {  // read during the call: must be valid memory
      list[0].addr = list[1].addr = list[2].addr = reinterpret_cast<std::uintptr_t>(arena_);
      for (ibv_sge& sge : list) sge.length %= 400;
    }
    wr.imm_data = static_cast<std::uint32_t>(random());
    if (entry->qp->qp_type == IBV_QPT_UD) {
      ibv_ah** ah = chance(95) ? pick(ahs_) : nullptr;
      QpEntry* peer = pick(qps_);
      wr.wr.ud = {.ah = ah != nullptr ? *ah : nullptr,
                  .remote_qpn = chance(90) ? peer->qp->qp_num : static_cast<std::uint32_t>(random()),
                  .remote_qkey = 0x11111111};
    } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {.remote_addr = any_remote_address() & ~std::uint64_t{chance(90) ? 7u : 0u},
                      .compare_add = random(),
                      .swap = random(),
                      .rkey = any_rkey()};
      list[0].length = chance(90) ? 8 : list[0].length;
    } else if (wr.opcode == IBV_WR_BIND_MW) {
      ibv_mw** mw = chance(95) ? pick(mws_) : nullptr;
      MrEntry* mr = chance(95) ? pick(mrs_) : nullptr;
      wr.bind_mw.mw = mw != nullptr ? *mw : nullptr;
      wr.bind_mw.rkey = mw != nullptr ? ibv_inc_rkey((*mw)->rkey) : 0;
      wr.bind_mw.bind_info = {.mr = mr != nullptr ? mr->mr : nullptr,
                              .addr = any_sge().addr,
                              .length = below(4096),
                              .mw_access_flags = below(32)};
    } else {
      wr.wr.rdma = {.remote_addr = any_remote_address(), .rkey = any_rkey()};
      if (wr.opcode == IBV_WR_SEND_WITH_INV || wr.opcode == IBV_WR_LOCAL_INV) wr.invalidate_rkey = any_rkey();
    }
    if (entry->qp->qp_type == IBV_QPT_XRC_SEND) wr.qp_type.xrc.remote_srqn = below(50);
  }
  ibv_send_wr* bad = nullptr;
  const int error = verdicts_.number("ibv_post_send", ibv_post_send(entry->qp, requests, &bad),
                                     Expect::kEither, {EINVAL, ENOMEM, EFAULT, EOPNOTSUPP});
  verdicts_.require("ibv_post_send", error == 0 || (bad >= requests && bad < requests + count),
                    "did not name the request that failed");
}

void World::post_receive() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr) return;
  ibv_sge list[3] = {any_sge(), any_sge(), any_sge()};
  ibv_recv_wr wr{};
  wr.wr_id = random();
  wr.sg_list = list;
  wr.num_sge = chance(97) ? static_cast<int>(below(4)) : -1;
  ibv_recv_wr* bad = nullptr;
  const Expect expect = wr.num_sge < 0 || entry->qp->srq != nullptr ? Expect::kRefusal : Expect::kEither;
  const int error =
      verdicts_.number("ibv_post_recv", ibv_post_recv(entry->qp, &wr, &bad), expect, {EINVAL, ENOMEM});
  verdicts_.require("ibv_post_recv", error == 0 || bad == &wr, "did not name the request that failed");
}

void World::build_requests() {
  QpEntry* entry = pick(qps_);
  if (entry == nullptr || !entry->builders) return;
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(entry->qp);
  verdicts_.require("ibv_qp_to_qp_ex", qp != nullptr, "has no builders, and was created with some");
  const bool reliable = entry->qp->qp_type == IBV_QPT_RC || entry->qp->qp_type == IBV_QPT_XRC_SEND;
  ibv_wr_start(qp);
  for (std::uint32_t i = below(4); i != 0; --i) {
    qp->wr_id = random();
    qp->wr_flags = below(16);
    switch (reliable ? below(6) : below(2)) {
      case 0: ibv_wr_send(qp); break;
      case 1: ibv_wr_send_imm(qp, 5); break;
      case 2: ibv_wr_rdma_write(qp, any_rkey(), any_remote_address()); break;
      case 3: ibv_wr_rdma_read(qp, any_rkey(), any_remote_address()); break;
      case 4: ibv_wr_atomic_fetch_add(qp, any_rkey(), any_remote_address(), 1); break;
      default: ibv_wr_local_inv(qp, any_rkey()); continue;
    }
    if (entry->qp->qp_type == IBV_QPT_XRC_SEND) ibv_wr_set_xrc_srqn(qp, below(50));
    if (entry->qp->qp_type == IBV_QPT_UD) {
      ibv_ah** ah = pick(ahs_);
      ibv_wr_set_ud_addr(qp, ah != nullptr ? *ah : nullptr, entry->qp->qp_num, 0x11111111);
    }
    const ibv_sge sge = any_sge();
    if (chance(30)) {
      ibv_wr_set_inline_data(qp, arena_, below(700));
    } else {
      ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
    }
  }
  if (chance(20)) {
    ibv_wr_abort(qp);
    return;
  }
  verdicts_.number("ibv_wr_complete", ibv_wr_complete(qp), Expect::kEither,
                   {EINVAL, ENOMEM, EFAULT, EOPNOTSUPP});
}

}  // namespace spin
