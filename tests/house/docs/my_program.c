// The reader's program of docs/testing-with-rrdma.md: WRITEs on a queue pair that is connected to itself, on
// the last device; when a port fails, on the device before it. Prints events and failures. Arguments: seconds
// to run (0.5). The exit status is 1 if no device is left. Plain C on libibverbs.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kDevicesMax = 8, kRegions = 3, kOctets = 65536 };

struct rail {
  struct ibv_context* context;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr[kRegions];
  char memory[kOctets];
};
static struct rail rails[kDevicesMax];

static int last_gid(struct ibv_context* context, union ibv_gid* gid) {
  static const uint8_t kIpv4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  for (int i = 7; i >= 0; --i) {
    if (ibv_query_gid(context, 1, i, gid) == 0 && memcmp(gid->raw, kIpv4, sizeof kIpv4) == 0) return i;
  }
  return 0;
}

static int connect_rail(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  int bad = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};
  attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = (uint8_t)last_gid(qp->context, &attr.ah_attr.grh.dgid);
  bad |= ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7};
  return bad | ibv_modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void open_rail(struct rail* rail, struct ibv_device* device) {
  rail->context = ibv_open_device(device);
  struct ibv_pd* pd = ibv_alloc_pd(rail->context);
  for (int i = 0; i < kRegions; ++i) {
    rail->mr[i] = ibv_reg_mr(pd, rail->memory, kOctets, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (rail->mr[i] == NULL) printf("%s: registration %d failed: %m\n", ibv_get_device_name(device), i + 1);
  }
  rail->cq = ibv_create_cq(rail->context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr form = {
      .send_cq = rail->cq, .recv_cq = rail->cq, .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
  rail->qp = ibv_create_qp(pd, &form);
  if (rail->qp == NULL || connect_rail(rail->qp) != 0) exit(1);
  fcntl(rail->context->async_fd, F_SETFL, O_NONBLOCK);
  printf("%s is ready\n", ibv_get_device_name(device));
}

// Prints the events. False if one says that the port or the device failed.
static int port_works(struct rail* rail) {
  struct ibv_async_event event;
  int failed = 0;
  while (ibv_get_async_event(rail->context, &event) == 0) {
    printf("%s\n", ibv_event_type_str(event.event_type));
    failed |= event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_DEVICE_FATAL;
    ibv_ack_async_event(&event);
  }
  return !failed;
}

// Whether the port works and one WRITE succeeds.
static int works(struct rail* rail) {
  if (!port_works(rail)) return 0;
  struct ibv_sge sge = {(uintptr_t)rail->memory, kOctets, rail->mr[0]->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  wr.wr.rdma.remote_addr = sge.addr;
  wr.wr.rdma.rkey = rail->mr[0]->rkey;
  struct ibv_wc completion;
  if (ibv_post_send(rail->qp, &wr, &bad) != 0) return 0;
  while (ibv_poll_cq(rail->cq, 1, &completion) == 0) {
  }
  if (completion.status == IBV_WC_SUCCESS) return 1;
  printf("a WRITE failed: %s\n", ibv_wc_status_str(completion.status));
  (void)port_works(rail);  // the port may have failed while the WRITE was in flight
  return 0;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char** words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  int devices = 0;
  struct ibv_device** list = ibv_get_device_list(&devices);
  if (devices < 1 || devices > kDevicesMax) return 1;
  for (int i = 0; i < devices; ++i) open_rail(&rails[i], list[i]);
  const double end = now() + (count > 1 ? atof(words[1]) : 0.5);
  for (int current = devices - 1; now() < end; usleep(1000)) {
    if (works(&rails[current])) continue;
    if (current-- == 0) return 1;
    printf("moved to the other device\n");
  }
  return 0;
}
