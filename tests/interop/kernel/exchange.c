// SPDX-License-Identifier: BSD-2-Clause
// Two RC queue pairs of one device in one process: SEND, WRITE and READ of 100,000 bytes, each byte
// compared. It is linked statically with libibverbs and the rxe provider, to show that such programs reach
// the device.
//
//   exchange DEVICE GID_INDEX
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kOctets = 100000, kSeconds = 20 };

static struct ibv_qp* qps[2];
static struct ibv_cq* cq;
static struct ibv_mr* mrs[2];
static unsigned char* buffers[2];

static void die(const char* what) {
  perror(what);
  exit(1);
}

static void connect_qp(struct ibv_qp* qp, unsigned peer, union ibv_gid gid, int index) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    die("INIT");
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = (unsigned char)index;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    die("RTR");
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC))
    die("RTS");
}

static void complete(int count) {
  const time_t end = time(NULL) + kSeconds;
  while (count > 0) {
    struct ibv_wc wc;
    const int got = ibv_poll_cq(cq, 1, &wc);
    if (got < 0 || time(NULL) > end) die("poll");
    if (got == 0) continue;
    if (wc.status != IBV_WC_SUCCESS) {
      fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
      exit(1);
    }
    --count;
  }
}

static void run(enum ibv_wr_opcode opcode, const char* name, unsigned seed) {
  const int source = opcode == IBV_WR_RDMA_READ ? 1 : 0;
  for (int i = 0; i < kOctets; ++i) {
    buffers[source][i] = (unsigned char)(seed + (unsigned)i * 7);
    buffers[1 - source][i] = 0;
  }
  struct ibv_sge sges[2];
  for (int i = 0; i < 2; ++i)
    sges[i] = (struct ibv_sge){.addr = (unsigned long)buffers[i], .length = kOctets, .lkey = mrs[i]->lkey};
  if (opcode == IBV_WR_SEND) {
    struct ibv_recv_wr receive = {.sg_list = &sges[1], .num_sge = 1}, *bad;
    if (ibv_post_recv(qps[1], &receive, &bad)) die("post_recv");
  }
  struct ibv_send_wr send = {.sg_list = &sges[0],
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                     *bad_send;
  send.wr.rdma.remote_addr = (unsigned long)buffers[1];
  send.wr.rdma.rkey = mrs[1]->rkey;
  if (ibv_post_send(qps[0], &send, &bad_send)) die("post_send");
  complete(opcode == IBV_WR_SEND ? 2 : 1);
  if (memcmp(buffers[0], buffers[1], kOctets) != 0) {
    fprintf(stderr, "%s: the bytes differ\n", name);
    exit(1);
  }
  printf("%s: %d bytes\n", name, kOctets);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int index = atoi(argv[2]);
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = NULL;
  for (int i = 0; list && list[i]; ++i)
    if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0) context = ibv_open_device(list[i]);
  if (!context) die("no such device");
  union ibv_gid gid;
  if (ibv_query_gid(context, 1, index, &gid)) die("query_gid");
  struct ibv_pd* pd = ibv_alloc_pd(context);
  if (!pd || !(cq = ibv_create_cq(context, 16, NULL, NULL, 0))) die("create");
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    if (!(qps[i] = ibv_create_qp(pd, &init))) die("create_qp");
    buffers[i] = malloc(kOctets);
    mrs[i] = ibv_reg_mr(pd, buffers[i], kOctets,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    if (!mrs[i]) die("reg_mr");
  }
  for (int i = 0; i < 2; ++i) connect_qp(qps[i], qps[1 - i]->qp_num, gid, index);
  run(IBV_WR_SEND, "SEND", 1);
  run(IBV_WR_RDMA_WRITE, "WRITE", 2);
  run(IBV_WR_RDMA_READ, "READ", 3);
  return 0;
}
