// This device's behavior where real devices differ from the specification or from each other
// (docs/conformance.md).
#include <poll.h>
#include <sys/mman.h>

#include <cerrno>
#include <initializer_list>
#include <utility>
#include <vector>

#include "bench.h"

namespace letter::states_test {

class States : public Bench {
 protected:
  int post_send(ibv_qp* qp) {
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.opcode = IBV_WR_SEND;
    return send(qp, wr, at(0, 8));
  }
  int modify(ibv_qp* qp, ibv_qp_state state, int more = 0) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | more);
  }
  // Puts one flushed receive for each id into this queue, by a QP that fails.
  void flush_receives(ibv_cq* cq, std::initializer_list<std::uint64_t> ids) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 1, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    ASSERT_NE(qp, nullptr);
    ASSERT_EQ(modify(qp, IBV_QPS_INIT, kToInit), 0);
    for (const std::uint64_t id : ids) ASSERT_EQ(receive(qp, id, at(0, 8)), 0);
    ASSERT_EQ(modify(qp, IBV_QPS_ERR), 0);
  }
  static constexpr int kToInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
};

TEST_F(States, RequestsArePostedFromTheStateOnThatCanServeThem) {
  ibv_qp* qp = create_qp(pd_);
  EXPECT_EQ(post_send(qp), EINVAL) << "RESET";
  EXPECT_EQ(receive(qp, 7, at(64, 8)), EINVAL) << "RESET";
  ASSERT_EQ(modify(qp, IBV_QPS_INIT, kToInit), 0);
  EXPECT_EQ(post_send(qp), EINVAL) << "INIT";
  EXPECT_EQ(receive(qp, 7, at(64, 8)), 0) << "INIT";
  ASSERT_EQ(modify(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(post_send(qp), 0) << "ERR";
  EXPECT_EQ(receive(qp, 8, at(64, 8)), 0) << "ERR";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
}

// The kernel counts the pages that a region touches: none at the start of a page, one inside it.
TEST_F(States, ARegionOfNoBytesIsTakenInsideAPage) {
  auto* pages = static_cast<std::uint8_t*>(
      mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(pages + 2 * 4096, 4096), 0);
  const auto refused = [&](std::uint8_t* address) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(pd_, address, 0, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
    return errno;
  };
  EXPECT_EQ(refused(pages), EINVAL);
  EXPECT_EQ(refused(pages + 4096), EINVAL);
  EXPECT_EQ(refused(nullptr), EINVAL);
  EXPECT_EQ(refused(pages + 2 * 4096 + 1), EFAULT);
  ibv_mr* empty = ibv_reg_mr(pd_, pages + 1, 0, kAllRights);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->length, 0u);
  // The region has no bytes; it does not cover all memory.
  ibv_qp* from = create_qp(pd_);
  ibv_qp* to = create_qp(pd_);
  connect(from, to);
  ibv_send_wr wr{};
  wr.wr_id = 3;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(pages + 1), .rkey = empty->rkey};
  ASSERT_EQ(send(from, wr, at(0, 1)), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_destroy_qp(from), 0);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
  EXPECT_EQ(ibv_dereg_mr(empty), 0);
  munmap(pages, 2 * 4096);
}

TEST_F(States, TheDeviceHasNoIndexThatNetlinkKnows) { EXPECT_EQ(ibv_get_device_index(context_->device), -1); }

// As in the kernel, the route sets the hop limit of a RoCE path: ibv_rc_pingpong asks for 1.
TEST_F(States, TheHopLimitIsTheRoutes) {
  for (const int asked : {0, 1, 255}) {
    ibv_qp* qp = create_qp(pd_);
    connect_to(qp, qp->qp_num, {}, static_cast<std::uint8_t>(asked));
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_AV, &init), 0);
    EXPECT_EQ(attr.ah_attr.grh.hop_limit, 64) << asked;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
}

// Completions of two QPs, which may be on two lanes, in one CQ.
TEST_F(States, CompletionTimesNeverRunBackwards) {
  ibv_cq_init_attr_ex form{};
  form.cqe = 64;
  form.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &form);
  ASSERT_NE(cq, nullptr);
  ibv_cq* const plain = std::exchange(cq_, ibv_cq_ex_to_cq(cq));
  ibv_qp* qps[] = {create_qp(pd_), create_qp(pd_)};
  cq_ = plain;
  for (ibv_qp* qp : qps) connect_to(qp, qp->qp_num, {});
  std::uint64_t last = 0, last_wall = 0;
  unsigned backwards = 0;
  for (int round = 0; round < 4000; ++round) {
    for (ibv_qp* qp : qps) {
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.wr.rdma = {.remote_addr = address(4096), .rkey = mr_->rkey};
      ASSERT_EQ(send(qp, wr, at(0, 8)), 0);
    }
    for (int taken = 0; taken < 2;) {
      ibv_poll_cq_attr none{};
      if (ibv_start_poll(cq, &none) != 0) continue;
      do {
        ++taken;
        const std::uint64_t now = ibv_wc_read_completion_ts(cq);
        const std::uint64_t wall = ibv_wc_read_completion_wallclock_ns(cq);
        backwards += now < last || wall < last_wall || wall != ibv_wc_read_completion_wallclock_ns(cq);
        last = now;
        last_wall = wall;
      } while (ibv_next_poll(cq) == 0);
      ibv_end_poll(cq);
    }
  }
  EXPECT_EQ(backwards, 0u);
  for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(States, AskingForEventsWithoutAChannelIsNoMistake) { EXPECT_EQ(ibv_req_notify_cq(cq_, 0), 0); }

TEST_F(States, ACompletionQueueThatOverflowsTellsItAndKeepsWhatItHas) {
  ibv_cq* small = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  flush_receives(small, {7, 8, 9});
  const ibv_wc first = next(small);
  EXPECT_EQ(first.wr_id, 7u);
  pollfd events{.fd = context_->async_fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&events, 1, 5000), 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, small);
  ibv_ack_async_event(&event);
}

// Two queues share one channel, and a program takes the event of one for that of the other, so it is one
// entry behind.
TEST_F(States, TheSmallestCompletionQueueTakesOneMoreThanOne) {
  ibv_cq* small = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(small->cqe, 2);
  flush_receives(small, {7, 8});
  EXPECT_EQ(next(small).wr_id, 7u);
  EXPECT_EQ(next(small).wr_id, 8u);
  ASSERT_EQ(ibv_resize_cq(small, 1), 0);
  EXPECT_EQ(small->cqe, 2);
}

TEST_F(States, ADatagramLongerThanTheMtuIsNotPosted) {
  ibv_qp* qp = create_qp(pd_, nullptr, IBV_QPT_UD);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  ibv_ah_attr address_attr{};
  address_attr.is_global = 1;
  address_attr.port_num = 1;
  for (int i = 0; i < 4 && address_attr.grh.dgid.global.interface_id == 0; ++i) {
    ibv_query_gid(context_, 1, i, &address_attr.grh.dgid);
    address_attr.grh.sgid_index = static_cast<std::uint8_t>(i);
  }
  ibv_ah* ah = ibv_create_ah(pd_, &address_attr);
  ASSERT_NE(ah, nullptr);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = qp->qp_num;
  EXPECT_EQ(send(qp, wr, at(0, 4096)), 0);
  EXPECT_EQ(send(qp, wr, at(0, 4097)), EINVAL);
}

// A QP that cannot receive does not answer: the initiator's retries run out.
TEST_F(States, ARemoteQpInResetOrErrorIsSilent) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_ERR}) {
    ibv_qp* one = create_qp(pd_);
    ibv_qp* other = create_qp(pd_);
    connect(one, other, {.timeout = 8, .retries = 1});  // 1 ms
    ASSERT_EQ(modify(other, state), 0);
    ASSERT_EQ(post_send(one), 0);
    EXPECT_EQ(next_of(one).status, IBV_WC_RETRY_EXC_ERR);
  }
}

}  // namespace letter::states_test
