// Makes mistakes at known lines; failures_test.py compares them with the lines that `rrdma explain` names.
// The test compiles it with and without optimization and debug information. Plain C on libibverbs. Argument:
// the GID index.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static char memory[4096];

static void must(int ok, const char* what) {
  if (ok) return;
  perror(what);
  exit(1);
}

static void connect_to_itself(struct ibv_qp* qp, int gid_index) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};
  attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
  must(ibv_query_gid(qp->context, 1, gid_index, &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 1};
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

int main(int count, char** words) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  must(count == 2 && list != NULL && list[0] != NULL, "no device");
  struct ibv_context* context = ibv_open_device(list[0]);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr form = {
      .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
  struct ibv_qp* qp = ibv_create_qp(pd, &form);
  must(qp != NULL && mr != NULL, "objects");

  form.cap.max_send_wr = 1000000;
  must(ibv_create_qp(pd, &form) == NULL, "a queue of a million requests");  // refused: ibv_create_qp
  struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
  must(ibv_post_send(qp, &wr, &bad) != 0, "a post in RESET");  // refused: ibv_post_send
  connect_to_itself(qp, atoi(words[1]));
  wr.wr.rdma.remote_addr = (uintptr_t)memory;
  wr.wr.rdma.rkey = mr->rkey;
  sge.lkey = mr->lkey ^ 0x4200;
  must(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");  // failed
  struct ibv_wc completion;
  while (ibv_poll_cq(cq, 1, &completion) == 0) {
  }
  return completion.status == IBV_WC_LOC_PROT_ERR ? 0 : 1;
}
