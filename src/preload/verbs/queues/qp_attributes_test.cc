#include "preload/verbs/queues/qp_attributes.h"

#include <gtest/gtest.h>

namespace rrdma::verbs::qp_attributes_test {

using transport::QpState;
using transport::QpType;

TEST(QpAttributes, EveryFieldArrivesInItsPlace) {
  ibv_qp_attr from{};
  from.qp_state = IBV_QPS_RTS;
  from.cur_qp_state = IBV_QPS_RTR;
  from.en_sqd_async_notify = 1;
  from.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  from.pkey_index = 3;
  from.port_num = 2;
  from.qkey = 0x11111111;
  from.path_mtu = IBV_MTU_2048;
  from.timeout = 14;
  from.retry_cnt = 5;
  from.rnr_retry = 6;
  from.min_rnr_timer = 12;
  from.rq_psn = 0x123456;
  from.sq_psn = 0x654321;
  from.max_rd_atomic = 7;
  from.max_dest_rd_atomic = 9;
  from.dest_qp_num = 0xabcdef;
  const transport::QpAttributes to = attributes_of(from);
  EXPECT_EQ(to.state, QpState::kReadyToSend);
  EXPECT_EQ(to.current_state, QpState::kReadyToReceive);
  EXPECT_TRUE(to.drain_notify);
  EXPECT_EQ(to.access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(to.pkey_index, 3);
  EXPECT_EQ(to.port, 2);
  EXPECT_EQ(to.qkey.value, 0x11111111u);
  EXPECT_EQ(transport::mtu_octets(to.path_mtu), 2048u);
  EXPECT_EQ(to.timeout, 14);
  EXPECT_EQ(to.retry_count, 5);
  EXPECT_EQ(to.rnr_retry, 6);
  EXPECT_EQ(to.min_rnr_timer, 12);
  EXPECT_EQ(to.receive_psn.value, 0x123456u);
  EXPECT_EQ(to.send_psn.value, 0x654321u);
  EXPECT_EQ(to.max_reads, 7);
  EXPECT_EQ(to.max_destination_reads, 9);
  EXPECT_EQ(to.destination.value, 0xabcdefu);
}

// PSNs and QP numbers have 24 bits; the byte above must not reach the wire.
TEST(QpAttributes, TheOctetAboveANumberIsCutOff) {
  ibv_qp_attr from{};
  from.rq_psn = 0xff123456;
  from.sq_psn = 0xff654321;
  const transport::QpAttributes to = attributes_of(from);
  EXPECT_EQ(to.receive_psn.value, 0x123456u);
  EXPECT_EQ(to.send_psn.value, 0x654321u);
}

template <typename Ours, typename Theirs>
void expect_same(Ours ours, Theirs theirs) {
  EXPECT_EQ(static_cast<unsigned>(ours), static_cast<unsigned>(theirs));
}

TEST(QpAttributes, StatesAndTypesAreThoseOfTheHeader) {
  expect_same(QpState::kReset, IBV_QPS_RESET);
  expect_same(QpState::kInit, IBV_QPS_INIT);
  expect_same(QpState::kReadyToReceive, IBV_QPS_RTR);
  expect_same(QpState::kReadyToSend, IBV_QPS_RTS);
  expect_same(QpState::kDrain, IBV_QPS_SQD);
  expect_same(QpState::kSendError, IBV_QPS_SQE);
  expect_same(QpState::kError, IBV_QPS_ERR);
  expect_same(QpType::kRc, IBV_QPT_RC);
  expect_same(QpType::kUc, IBV_QPT_UC);
  expect_same(QpType::kUd, IBV_QPT_UD);
  expect_same(QpType::kXrcSend, IBV_QPT_XRC_SEND);
  expect_same(QpType::kXrcReceive, IBV_QPT_XRC_RECV);
}

TEST(QpAttributes, MaskBitsAreThoseOfTheHeader) {
  expect_same(transport::kAttrState, IBV_QP_STATE);
  expect_same(transport::kAttrCurrentState, IBV_QP_CUR_STATE);
  expect_same(transport::kAttrDrainNotify, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  expect_same(transport::kAttrAccessFlags, IBV_QP_ACCESS_FLAGS);
  expect_same(transport::kAttrPKeyIndex, IBV_QP_PKEY_INDEX);
  expect_same(transport::kAttrPort, IBV_QP_PORT);
  expect_same(transport::kAttrQKey, IBV_QP_QKEY);
  expect_same(transport::kAttrPath, IBV_QP_AV);
  expect_same(transport::kAttrPathMtu, IBV_QP_PATH_MTU);
  expect_same(transport::kAttrTimeout, IBV_QP_TIMEOUT);
  expect_same(transport::kAttrRetryCount, IBV_QP_RETRY_CNT);
  expect_same(transport::kAttrRnrRetry, IBV_QP_RNR_RETRY);
  expect_same(transport::kAttrReceivePsn, IBV_QP_RQ_PSN);
  expect_same(transport::kAttrMaxReads, IBV_QP_MAX_QP_RD_ATOMIC);
  expect_same(transport::kAttrMinRnrTimer, IBV_QP_MIN_RNR_TIMER);
  expect_same(transport::kAttrSendPsn, IBV_QP_SQ_PSN);
  expect_same(transport::kAttrMaxDestinationReads, IBV_QP_MAX_DEST_RD_ATOMIC);
  expect_same(transport::kAttrCapabilities, IBV_QP_CAP);
  expect_same(transport::kAttrDestinationQpn, IBV_QP_DEST_QPN);
  expect_same(transport::kAttrRateLimit, IBV_QP_RATE_LIMIT);
}

TEST(QpAttributes, MtuCodesAreThoseOfTheHeader) {
  EXPECT_EQ(transport::mtu_octets(IBV_MTU_256), 256u);
  EXPECT_EQ(transport::mtu_octets(IBV_MTU_4096), 4096u);
}

}  // namespace rrdma::verbs::qp_attributes_test
