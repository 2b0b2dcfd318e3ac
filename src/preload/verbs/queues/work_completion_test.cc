#include "preload/verbs/queues/work_completion.h"

#include <gtest/gtest.h>

#include <cstring>

namespace rrdma::verbs::work_completion_test {

TEST(WorkCompletion, SaysEveryFieldAndLeavesNoOldOne) {
  const objects::Completion from{.wr_id = 0x1122334455667788,
                                 .status = objects::Status::kRetryExceeded,
                                 .opcode = objects::CompletionOpcode::kReceiveWriteImmediate,
                                 .flags = objects::kWithGrh | objects::kWithImmediate,
                                 .byte_length = 77,
                                 .immediate_or_key = 0xabcdef01,
                                 .qpn = wire::Qpn(0x123456),
                                 .source_qpn = wire::Qpn(0x654321)};
  ibv_wc to;
  std::memset(static_cast<void*>(&to), 0xee, sizeof to);
  translate(from, to);
  EXPECT_EQ(to.wr_id, 0x1122334455667788u);
  EXPECT_EQ(to.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(to.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(to.vendor_err, from.vendor_err);
  EXPECT_EQ(to.byte_len, 77u);
  EXPECT_EQ(to.imm_data, 0xabcdef01u);
  EXPECT_EQ(to.qp_num, 0x123456u);
  EXPECT_EQ(to.src_qp, 0x654321u);
  EXPECT_EQ(to.wc_flags, unsigned{IBV_WC_GRH} | IBV_WC_WITH_IMM);
  EXPECT_EQ(to.sl, from.service_level);
  EXPECT_EQ(to.pkey_index, 0);
  EXPECT_EQ(to.slid, 0);
  EXPECT_EQ(to.dlid_path_bits, 0);
}

// Statuses, opcodes and flags cross the boundary by cast.
template <typename Ours, typename Theirs>
void expect_same(Ours ours, Theirs theirs) {
  EXPECT_EQ(static_cast<unsigned>(ours), static_cast<unsigned>(theirs));
}

TEST(WorkCompletion, StatusesAreThoseOfTheHeader) {
  using objects::Status;
  expect_same(Status::kSuccess, IBV_WC_SUCCESS);
  expect_same(Status::kLocalLengthError, IBV_WC_LOC_LEN_ERR);
  expect_same(Status::kLocalQpOperationError, IBV_WC_LOC_QP_OP_ERR);
  expect_same(Status::kLocalProtectionError, IBV_WC_LOC_PROT_ERR);
  expect_same(Status::kFlushed, IBV_WC_WR_FLUSH_ERR);
  expect_same(Status::kWindowBindError, IBV_WC_MW_BIND_ERR);
  expect_same(Status::kBadResponse, IBV_WC_BAD_RESP_ERR);
  expect_same(Status::kLocalAccessError, IBV_WC_LOC_ACCESS_ERR);
  expect_same(Status::kRemoteInvalidRequest, IBV_WC_REM_INV_REQ_ERR);
  expect_same(Status::kRemoteAccessError, IBV_WC_REM_ACCESS_ERR);
  expect_same(Status::kRemoteOperationError, IBV_WC_REM_OP_ERR);
  expect_same(Status::kRetryExceeded, IBV_WC_RETRY_EXC_ERR);
  expect_same(Status::kRnrRetryExceeded, IBV_WC_RNR_RETRY_EXC_ERR);
  expect_same(Status::kRemoteAborted, IBV_WC_REM_ABORT_ERR);
  expect_same(Status::kFatal, IBV_WC_FATAL_ERR);
  expect_same(Status::kResponseTimeout, IBV_WC_RESP_TIMEOUT_ERR);
  expect_same(Status::kGeneralError, IBV_WC_GENERAL_ERR);
}

TEST(WorkCompletion, OpcodesAndFlagsAreThoseOfTheHeader) {
  using objects::CompletionOpcode;
  expect_same(CompletionOpcode::kSend, IBV_WC_SEND);
  expect_same(CompletionOpcode::kWrite, IBV_WC_RDMA_WRITE);
  expect_same(CompletionOpcode::kRead, IBV_WC_RDMA_READ);
  expect_same(CompletionOpcode::kCompareSwap, IBV_WC_COMP_SWAP);
  expect_same(CompletionOpcode::kFetchAdd, IBV_WC_FETCH_ADD);
  expect_same(CompletionOpcode::kBindWindow, IBV_WC_BIND_MW);
  expect_same(CompletionOpcode::kLocalInvalidate, IBV_WC_LOCAL_INV);
  expect_same(CompletionOpcode::kAtomicWrite, IBV_WC_ATOMIC_WRITE);
  expect_same(CompletionOpcode::kReceive, IBV_WC_RECV);
  expect_same(CompletionOpcode::kReceiveWriteImmediate, IBV_WC_RECV_RDMA_WITH_IMM);
  expect_same(objects::kWithGrh, IBV_WC_GRH);
  expect_same(objects::kWithImmediate, IBV_WC_WITH_IMM);
  expect_same(objects::kWithInvalidate, IBV_WC_WITH_INV);
}

}  // namespace rrdma::verbs::work_completion_test
