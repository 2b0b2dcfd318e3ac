// Where real devices differ from the specification or from each other: what this one does (docs/conformance.md).
#include <poll.h>

#include <cerrno>
#include <initializer_list>
#include <vector>

#include "bench.h"

namespace letter {
namespace {

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
  // As many completions in this queue: receives of a QP that fails.
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

TEST_F(States, ARegionOfNoOctetsIsRefused) {
  for (std::uint8_t* address : {memory_, memory_ + 1}) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(pd_, address, 0, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
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

// Two queues at one channel, and a program that takes the event of the one for that of the other: it is one entry behind.
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

// Nobody answers for a QP that cannot receive: the initiator's retries run out.
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

}  // namespace
}  // namespace letter
