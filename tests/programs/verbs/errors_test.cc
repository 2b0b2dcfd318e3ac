// The completion statuses of work requests, between two QPs of this process.
#include "bench.h"

namespace letter::errors_test {

class Errors : public Bench {
 protected:
  void SetUp() override {
    Bench::SetUp();
    from_ = create_qp(pd_);
    to_ = create_qp(pd_);
    ASSERT_NE(from_, nullptr);
    ASSERT_NE(to_, nullptr);
    connect(from_, to_);
  }
  ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t id = 1) const {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = opcode;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = address(4096);
      wr.wr.atomic.rkey = mr_->rkey;
    } else {
      wr.wr.rdma.remote_addr = address(4096);
      wr.wr.rdma.rkey = mr_->rkey;
    }
    return wr;
  }

  ibv_qp* from_ = nullptr;
  ibv_qp* to_ = nullptr;
};

TEST_F(Errors, AWriteWithImmediateWhoseKeyIsRefused) {
  ASSERT_EQ(receive(to_, 7, at(0, 64)), 0);
  ASSERT_EQ(receive(to_, 8, at(64, 64)), 0);
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM);
  wr.wr.rdma.rkey ^= 0x700;
  ASSERT_EQ(send(from_, wr, at(128, 64)), 0);
  ASSERT_EQ(send(from_, request(IBV_WR_SEND, 2), at(128, 64)), 0);
  const ibv_wc local = next_of(from_);
  EXPECT_EQ(local.wr_id, 1u);
  EXPECT_EQ(local.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(next_of(from_).status, IBV_WC_WR_FLUSH_ERR);
  const ibv_wc remote = next_of(to_);
  EXPECT_EQ(remote.wr_id, 7u);
  EXPECT_EQ(remote.status, IBV_WC_LOC_ACCESS_ERR);
  const ibv_wc behind = next_of(to_);
  EXPECT_EQ(behind.wr_id, 8u);
  EXPECT_EQ(behind.status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Errors, AtomicsWithALongList) {
  for (const ibv_wr_opcode opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    ibv_qp* one = create_qp(pd_);
    ibv_qp* other = create_qp(pd_);
    connect(one, other);
    ASSERT_EQ(send(one, request(opcode), at(0, 16)), 0);
    EXPECT_EQ(next_of(one).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(ibv_destroy_qp(one), 0);
    EXPECT_EQ(ibv_destroy_qp(other), 0);
  }
}

TEST_F(Errors, AtomicsWithAShortListAreNotPosted) {
  EXPECT_EQ(send(from_, request(IBV_WR_ATOMIC_FETCH_AND_ADD), at(0, 4)), EINVAL);
}

// As on rxe and mlx5, posting does not check the type of the QP: the completion reports the error.
TEST_F(Errors, OperationsThatTheTypeOfTheQpLacks) {
  constexpr ibv_wr_opcode kNotOfDatagrams[] = {
      IBV_WR_RDMA_WRITE,         IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV,
      IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV};
  constexpr ibv_wr_opcode kNotOfUc[] = {IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV, IBV_WR_ATOMIC_CMP_AND_SWP,
                                        IBV_WR_ATOMIC_FETCH_AND_ADD};
  const auto expect_error = [&](ibv_qp_type type, ibv_wr_opcode opcode) {
    ibv_qp* qp = create_qp(pd_, nullptr, type);
    connect_to(qp, qp->qp_num, {});
    // The fields of WRITEs and atomics share a union with a datagram's address handle.
    ASSERT_EQ(send(qp, request(opcode, 5), at(0, 8)), 0) << type << " " << opcode;
    ASSERT_EQ(send(qp, request(opcode, 6), at(0, 8)), 0);
    const ibv_wc wc = next_of(qp);
    EXPECT_EQ(wc.wr_id, 5u);
    EXPECT_EQ(wc.status, IBV_WC_LOC_QP_OP_ERR) << type << " " << opcode;
    EXPECT_EQ(next_of(qp).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  };
  for (const ibv_wr_opcode opcode : kNotOfDatagrams) expect_error(IBV_QPT_UD, opcode);
  for (const ibv_wr_opcode opcode : kNotOfUc) expect_error(IBV_QPT_UC, opcode);
}

TEST_F(Errors, AnOperationThatNobodyHasIsNotPosted) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UD}) {
    ibv_qp* qp = create_qp(pd_, nullptr, type);
    connect_to(qp, qp->qp_num, {});
    for (const ibv_wr_opcode opcode : {IBV_WR_TSO, IBV_WR_DRIVER1})
      EXPECT_EQ(send(qp, request(opcode), at(0, 8)), EINVAL) << type << " " << opcode;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
}

// Class J of the specification: the SEND arrived and is acknowledged. The failed invalidation is the
// receiver's error.
TEST_F(Errors, ASendWhoseKeyCannotBeInvalidatedSucceedsForTheSender) {
  ASSERT_EQ(receive(to_, 7, at(0, 64)), 0);
  ASSERT_EQ(receive(to_, 8, at(64, 64)), 0);
  memory_[128] = 0x5a;
  ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV);
  wr.invalidate_rkey = mr_->rkey;
  ASSERT_EQ(send(from_, wr, at(128, 64)), 0);
  EXPECT_EQ(next_of(from_).status, IBV_WC_SUCCESS);
  const ibv_wc remote = next_of(to_);
  EXPECT_EQ(remote.wr_id, 7u);
  EXPECT_EQ(remote.status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(next_of(to_).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(memory_[0], 0x5a);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(from_, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  ASSERT_EQ(ibv_query_qp(to_, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
}

TEST_F(Errors, ASharedReceiveQueueHasADomainOfItsOwn) {
  for (const bool of_queue : {true, false}) {
    ibv_pd* domain = ibv_alloc_pd(context_);
    ibv_mr* mr = ibv_reg_mr(domain, memory_, kOctets, kAllRights);
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    ibv_srq* srq = ibv_create_srq(domain, &init);
    ASSERT_NE(srq, nullptr);
    ibv_qp* one = create_qp(pd_);
    ibv_qp* other = create_qp(pd_, srq);
    ASSERT_NE(other, nullptr);
    connect(one, other);
    ibv_sge sge = at(0, 64, of_queue ? mr : mr_);
    ibv_recv_wr wr{.wr_id = 7, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    ASSERT_EQ(send(one, request(IBV_WR_SEND), at(128, 64)), 0);
    EXPECT_EQ(next_of(one).status, of_queue ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
    EXPECT_EQ(next_of(other).status, of_queue ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
  }
}

// The window's owner chooses the whole key, but only its low byte counts.
TEST_F(Errors, AType2WindowTakesTheLowOctetOfTheKey) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t before = mw->rkey;
  ibv_send_wr bind{};
  bind.wr_id = 1;
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind_mw.mw = mw;
  bind.bind_mw.rkey = ~before ^ 0x5a;
  bind.bind_mw.bind_info = {
      .mr = mr_, .addr = address(4096), .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(to_, &bind, &bad), 0);
  ASSERT_EQ(next_of(to_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(mw->rkey, (before & ~0xffu) | (bind.bind_mw.rkey & 0xff));
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, 2);
  write.wr.rdma.rkey = mw->rkey;
  memory_[0] = 0xab;
  ASSERT_EQ(send(from_, write, at(0, 1)), 0);
  EXPECT_EQ(next_of(from_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[4096], 0xab);
  write.wr.rdma.rkey = before;
  ASSERT_EQ(send(from_, write, at(0, 1)), 0);
  EXPECT_EQ(next_of(from_).status, before == mw->rkey ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

}  // namespace letter::errors_test
