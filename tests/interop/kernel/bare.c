// SPDX-License-Identifier: BSD-2-Clause
// A program without libibverbs and without glibc: it speaks the ABI of /dev/infiniband/uverbs0 by itself,
// and is linked statically with musl. Two RC queue pairs in one process: SEND of 10,000 bytes, each byte
// compared.
//
//   bare UVERBS GID      bare /dev/infiniband/uverbs0 0000:0000:0000:0000:0000:ffff:0a4d:0002
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "words.h"

enum { kOctets = 10000, kSeconds = 20, kRc = 2 };
enum {
  kState = 1 << 0,
  kAccess = 1 << 3,
  kPkey = 1 << 4,
  kPort = 1 << 5,
  kAv = 1 << 7,
  kMtu = 1 << 8,
  kTimeout = 1 << 9
};
enum {
  kRetry = 1 << 10,
  kRnrRetry = 1 << 11,
  kRqPsn = 1 << 12,
  kReads = 1 << 13,
  kMinRnr = 1 << 15,
  kSqPsn = 1 << 16
};
enum { kDestinationReads = 1 << 17, kDestination = 1 << 20, kReregAccess = 1 << 2 };

static int file;
static unsigned char gid[16];

static void die(const char* what) {
  perror(what);
  exit(1);
}

// A command: the header, its fields, the place of the answer in the first of them.
static void command(unsigned number, void* fields, size_t octets, void* answer, size_t answer_octets,
                    const char* name) {
  unsigned char message[512];
  struct ib_uverbs_cmd_hdr header = {.command = number,
                                     .in_words = (__u16)((sizeof header + octets) / 4),
                                     .out_words = (__u16)(answer_octets / 4)};
  if (answer) *(__u64*)fields = (__u64)(unsigned long)answer;
  memcpy(message, &header, sizeof header);
  memcpy(message + sizeof header, fields, octets);
  if (write(file, message, sizeof header + octets) != (ssize_t)(sizeof header + octets)) die(name);
}

static struct rxe_queue_buf* map(const struct mminfo* info) {
  void* at = mmap(NULL, info->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)info->offset);
  if (at == MAP_FAILED) die("mmap of a ring");
  return at;
}

static void* slot(struct rxe_queue_buf* ring, unsigned index) {
  return ring->data + ((size_t)(index & ring->index_mask) << ring->log2_elem_size);
}

struct qp {
  unsigned handle, number;
  struct rxe_queue_buf *sends, *receives;
};

static struct qp create_qp(unsigned pd, unsigned cq) {
  struct ib_uverbs_create_qp create = {.pd_handle = pd,
                                       .send_cq_handle = cq,
                                       .recv_cq_handle = cq,
                                       .max_send_wr = 4,
                                       .max_recv_wr = 4,
                                       .max_send_sge = 1,
                                       .max_recv_sge = 1,
                                       .qp_type = kRc};
  struct {
    struct ib_uverbs_create_qp_resp fixed;
    struct rxe_create_qp_resp rings;
  } answer;
  command(IB_USER_VERBS_CMD_CREATE_QP, &create, sizeof create, &answer, sizeof answer, "CREATE_QP");
  return (struct qp){answer.fixed.qp_handle, answer.fixed.qpn, map(&answer.rings.sq_mi),
                     map(&answer.rings.rq_mi)};
}

static void modify(struct ib_uverbs_modify_qp modify, const char* name) {
  command(IB_USER_VERBS_CMD_MODIFY_QP, &modify, sizeof modify, NULL, 0, name);
}

static void connect_qp(struct qp qp, struct qp peer) {
  modify((struct ib_uverbs_modify_qp){.qp_handle = qp.handle,
                                      .attr_mask = kState | kPkey | kPort | kAccess,
                                      .qp_state = 1,
                                      .port_num = 1},
         "INIT");
  struct ib_uverbs_modify_qp ready = {
      .qp_handle = qp.handle,
      .attr_mask = kState | kAv | kMtu | kDestination | kRqPsn | kDestinationReads | kMinRnr,
      .qp_state = 2,
      .path_mtu = 3,
      .dest_qp_num = peer.number,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12};
  memcpy(ready.dest.dgid, gid, sizeof gid);
  ready.dest.is_global = 1;
  ready.dest.port_num = 1;
  ready.dest.sgid_index = 1;
  ready.dest.hop_limit = 64;
  modify(ready, "RTR");
  modify((struct ib_uverbs_modify_qp){.qp_handle = qp.handle,
                                      .attr_mask = kState | kTimeout | kRetry | kRnrRetry | kSqPsn | kReads,
                                      .qp_state = 3,
                                      .timeout = 14,
                                      .retry_cnt = 7,
                                      .rnr_retry = 7,
                                      .max_rd_atomic = 1},
         "RTS");
}

// Twice with the same rights: what stays must still be known the second time.
static unsigned register_again(const struct ib_uverbs_reg_mr_resp* region) {
  struct ib_uverbs_rereg_mr_resp answer = {0};
  for (int i = 0; i < 2; ++i) {
    struct ib_uverbs_rereg_mr form = {
        .mr_handle = region->mr_handle, .flags = kReregAccess, .access_flags = 1};
    command(IB_USER_VERBS_CMD_REREG_MR, &form, sizeof form, &answer, sizeof answer, "REREG_MR");
  }
  return answer.lkey;
}

static unsigned register_memory(unsigned pd, void* memory) {
  struct ib_uverbs_reg_mr form = {.start = (__u64)(unsigned long)memory,
                                  .length = kOctets,
                                  .hca_va = (__u64)(unsigned long)memory,
                                  .pd_handle = pd,
                                  .access_flags = 1};
  struct ib_uverbs_reg_mr_resp answer;
  command(IB_USER_VERBS_CMD_REG_MR, &form, sizeof form, &answer, sizeof answer, "REG_MR");
  return register_again(&answer);
}

static void post(struct rxe_queue_buf* ring, struct rxe_dma_info* dma, const void* memory, unsigned key) {
  dma->length = kOctets;
  dma->num_sge = 1;
  dma->sge[0].addr = (__u64)(unsigned long)memory;
  dma->sge[0].length = kOctets;
  dma->sge[0].lkey = key;
  __atomic_store_n(&ring->producer_index, (ring->producer_index + 1) & ring->index_mask, __ATOMIC_RELEASE);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (!read_gid(argv[2], gid)) return 2;
  if ((file = open(argv[1], O_RDWR)) < 0) die(argv[1]);
  struct ib_uverbs_get_context context = {0};
  struct ib_uverbs_get_context_resp context_answer;
  command(IB_USER_VERBS_CMD_GET_CONTEXT, &context, sizeof context, &context_answer, sizeof context_answer,
          "GET_CONTEXT");
  struct ib_uverbs_alloc_pd alloc = {0};
  struct ib_uverbs_alloc_pd_resp pd;
  command(IB_USER_VERBS_CMD_ALLOC_PD, &alloc, sizeof alloc, &pd, sizeof pd, "ALLOC_PD");
  struct ib_uverbs_create_cq create = {.cqe = 16, .comp_channel = -1};
  struct {
    struct ib_uverbs_create_cq_resp fixed;
    struct rxe_create_cq_resp ring;
  } cq;
  command(IB_USER_VERBS_CMD_CREATE_CQ, &create, sizeof create, &cq, sizeof cq, "CREATE_CQ");
  struct rxe_queue_buf* completions = map(&cq.ring.mi);
  struct qp one = create_qp(pd.pd_handle, cq.fixed.cq_handle),
            other = create_qp(pd.pd_handle, cq.fixed.cq_handle);
  connect_qp(one, other);
  connect_qp(other, one);

  unsigned char *from = malloc(kOctets), *to = calloc(1, kOctets);
  for (int i = 0; i < kOctets; ++i) from[i] = (unsigned char)(i * 7 + 1);
  const unsigned from_key = register_memory(pd.pd_handle, from), to_key = register_memory(pd.pd_handle, to);
  struct rxe_recv_wqe* receive = slot(other.receives, 0);
  memset(receive, 0, sizeof *receive);
  post(other.receives, &receive->dma, to, to_key);
  struct rxe_send_wqe* send = slot(one.sends, 0);
  memset(send, 0, sizeof *send);
  send->wr.opcode = IB_UVERBS_WR_SEND;
  send->wr.send_flags = 2;  // signaled
  post(one.sends, &send->dma, from, from_key);
  struct ib_uverbs_post_send doorbell = {.qp_handle = one.handle,
                                         .wqe_size = sizeof(struct ib_uverbs_send_wr)};
  struct ib_uverbs_post_send_resp rung;
  command(IB_USER_VERBS_CMD_POST_SEND, &doorbell, sizeof doorbell, &rung, sizeof rung, "POST_SEND");

  const time_t end = time(NULL) + kSeconds;
  for (unsigned done = 0; done < 2;) {
    if (time(NULL) > end) return 1;
    if (__atomic_load_n(&completions->producer_index, __ATOMIC_ACQUIRE) == done) continue;
    const struct ib_uverbs_wc* wc = slot(completions, done++);
    if (wc->status != 0) {
      fprintf(stderr, "completion with status %u\n", wc->status);
      return 1;
    }
    completions->consumer_index = done;
  }
  if (memcmp(from, to, kOctets) != 0) return 1;
  printf("SEND: %d bytes, without libibverbs\n", kOctets);
  return 0;
}
