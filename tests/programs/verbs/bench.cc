#include "bench.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace letter {
namespace {

constexpr std::uint8_t kPort = 1;

ibv_gid usable_gid(ibv_context* context, int& index) {
  ibv_gid gid{};
  for (index = 0; index < 16; ++index) {
    const ibv_gid none{};
    if (ibv_query_gid(context, kPort, index, &gid) == 0 && std::memcmp(&gid, &none, sizeof gid) != 0)
      return gid;
  }
  ADD_FAILURE() << "the device has no GID";
  return gid;
}

}  // namespace

ibv_context* open_device() {
  const char* wanted = std::getenv("LETTER_DEVICE");  // to compare with another device: rxe0
  if (wanted == nullptr) wanted = "rrdma";
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (std::strncmp(ibv_get_device_name(list[i]), wanted, std::strlen(wanted)) == 0)
      context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  return context;
}

void Bench::SetUp() {
  context_ = open_device();
  ASSERT_NE(context_, nullptr);
  pd_ = ibv_alloc_pd(context_);
  ASSERT_NE(pd_, nullptr);
  cq_ = ibv_create_cq(context_, 256, nullptr, nullptr, 0);
  ASSERT_NE(cq_, nullptr);
  mr_ = ibv_reg_mr(pd_, memory_, kOctets, kAllRights);
  ASSERT_NE(mr_, nullptr);
}

// Closing the device destroys the objects that a test has left.
void Bench::TearDown() {
  if (context_ != nullptr) {
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
}

ibv_qp* Bench::create_qp(ibv_pd* in, ibv_srq* srq, ibv_qp_type type) const {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq;
  init.cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 2, .max_recv_sge = 2};
  init.qp_type = type;
  init.sq_sig_all = 1;
  return ibv_create_qp(in, &init);
}

void Bench::connect(ibv_qp* one, ibv_qp* other, const Patience& patience) const {
  connect_to(one, other->qp_num, patience);
  connect_to(other, one->qp_num, patience);
}

void Bench::connect_to(ibv_qp* qp, std::uint32_t peer, const Patience& patience, std::uint8_t hops) const {
  const bool datagram = qp->qp_type == IBV_QPT_UD, reliable = qp->qp_type == IBV_QPT_RC;
  int index = 0;
  const ibv_gid gid = usable_gid(context_, index);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ASSERT_EQ(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
            0);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index);
  attr.ah_attr.grh.hop_limit = hops;
  const int path = datagram ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const int answers = reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | path | answers), 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = patience.timeout;
  attr.retry_cnt = patience.retries;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  const int retries =
      reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | retries), 0);
}

ibv_wc Bench::next(ibv_cq* from) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  ibv_wc wc{};
  while (ibv_poll_cq(from != nullptr ? from : cq_, 1, &wc) == 0) {
    if (std::chrono::steady_clock::now() < end) continue;
    wc.status = IBV_WC_RESP_TIMEOUT_ERR;
    break;
  }
  return wc;
}

ibv_wc Bench::next_of(const ibv_qp* qp) {
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->qp_num != qp->qp_num) continue;
    const ibv_wc found = *it;
    kept_.erase(it);
    return found;
  }
  for (;;) {
    const ibv_wc wc = next();
    if (wc.status == IBV_WC_RESP_TIMEOUT_ERR || wc.qp_num == qp->qp_num) return wc;
    kept_.push_back(wc);
  }
}

int Bench::receive(ibv_qp* qp, std::uint64_t id, ibv_sge sge) {
  ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int Bench::send(ibv_qp* qp, ibv_send_wr wr, ibv_sge sge) {
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

}  // namespace letter
