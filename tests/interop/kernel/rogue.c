// SPDX-License-Identifier: BSD-2-Clause
// Hostile programs: processes that speak the ABI of uverbs themselves. They create, connect and destroy
// objects at random, write at random into their rings, ring the doorbell, unmap registered memory, and die
// at any moment. The kernel and the honest daemon that serves the device must survive; nothing else is
// asked.
//
//   rogue UVERBS GID SECONDS SEED      rogue /dev/infiniband/uverbs0 ...:ffff:0a4d:0002 60 46
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "words.h"

enum { kWorkers = 4, kObjects = 12, kPage = 4096, kRegionOctets = 16 * kPage, kTurnsMax = 4000 };

struct ring {
  struct rxe_queue_buf* at;
  size_t octets;
};
struct object {
  unsigned handle, number;  // number: QPN or key
  struct ring rings[2];
  unsigned char* memory;
};
struct table {
  struct object all[kObjects];
  unsigned count;
};

static int file;
static unsigned char gid[16];
static struct table pds, cqs, srqs, qps, mrs, mws;

// A command; failures are expected. Returns 0 if the kernel took it.
static int command(unsigned number, void* fields, size_t octets, void* answer, size_t answer_octets) {
  unsigned char message[512];
  struct ib_uverbs_cmd_hdr header = {.command = number,
                                     .in_words = (__u16)((sizeof header + octets) / 4),
                                     .out_words = (__u16)(answer_octets / 4)};
  if (answer) *(__u64*)fields = (__u64)(unsigned long)answer;
  memcpy(message, &header, sizeof header);
  memcpy(message + sizeof header, fields, octets);
  return write(file, message, sizeof header + octets) == (ssize_t)(sizeof header + octets) ? 0 : -1;
}

static struct ring map(const struct mminfo* info) {
  void* at = mmap(NULL, info->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)info->offset);
  return at == MAP_FAILED ? (struct ring){0} : (struct ring){at, info->size};
}

static struct object* any(struct table* table) {
  static struct object none;
  return table->count ? &table->all[pick(table->count)] : &none;
}

// Mostly one that exists.
static unsigned any_handle(struct table* table) { return pick(16) ? any(table)->handle : pick(64); }

static void keep(struct table* table, struct object object) {
  if (table->count < kObjects) table->all[table->count++] = object;
}

// The handle is the first field of the command, or the one behind the place of the answer.
static void drop(struct table* table, unsigned number, size_t answer_octets) {
  if (!table->count) return;
  struct object* const object = &table->all[pick(table->count)];
  unsigned fields[4] = {0};
  __u64 answer[4];
  fields[answer_octets ? 2 : 0] = pick(16) ? object->handle : pick(64);
  // Sometimes the rings stay mapped.
  for (int i = 0; i < 2 && pick(4); ++i)
    if (object->rings[i].at) munmap(object->rings[i].at, object->rings[i].octets);
  command(number, fields, answer_octets ? 16 : 4, answer_octets ? answer : NULL, answer_octets);
  if (object->memory) munmap(object->memory, kRegionOctets);
  *object = table->all[--table->count];
}

static void destroy_something(void) {
  switch (pick(8)) {
    case 0: drop(&cqs, IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(struct ib_uverbs_destroy_cq_resp)); break;
    case 1: drop(&srqs, IB_USER_VERBS_CMD_DESTROY_SRQ, sizeof(struct ib_uverbs_destroy_srq_resp)); break;
    case 2: drop(&pds, IB_USER_VERBS_CMD_DEALLOC_PD, 0); break;
    case 3:
    case 4: drop(&mrs, IB_USER_VERBS_CMD_DEREG_MR, 0); break;
    default: drop(&qps, IB_USER_VERBS_CMD_DESTROY_QP, sizeof(struct ib_uverbs_destroy_qp_resp)); break;
  }
}

static void create_cq(void) {
  struct ib_uverbs_create_cq form = {.cqe = pick(8) ? 1 + pick(64) : any_word(), .comp_channel = -1};
  struct {
    struct ib_uverbs_create_cq_resp fixed;
    struct rxe_create_cq_resp ring;
  } answer;
  if (command(IB_USER_VERBS_CMD_CREATE_CQ, &form, sizeof form, &answer, sizeof answer)) return;
  keep(&cqs, (struct object){.handle = answer.fixed.cq_handle, .rings = {map(&answer.ring.mi)}});
}

static void create_srq(void) {
  struct ib_uverbs_create_srq form = {.pd_handle = any_handle(&pds),
                                      .max_wr = pick(8) ? 1 + pick(32) : any_word(),
                                      .max_sge = pick(8) ? pick(4) : any_word(),
                                      .srq_limit = pick(4)};
  struct {
    struct ib_uverbs_create_srq_resp fixed;
    struct rxe_create_srq_resp ring;
  } answer;
  if (command(IB_USER_VERBS_CMD_CREATE_SRQ, &form, sizeof form, &answer, sizeof answer)) return;
  keep(&srqs, (struct object){.handle = answer.fixed.srq_handle, .rings = {map(&answer.ring.mi)}});
}

static void create_qp(void) {
  struct ib_uverbs_create_qp form = {.pd_handle = any_handle(&pds),
                                     .send_cq_handle = any_handle(&cqs),
                                     .recv_cq_handle = any_handle(&cqs),
                                     .srq_handle = any_handle(&srqs),
                                     .max_send_wr = pick(8) ? pick(32) : any_word(),
                                     .max_recv_wr = pick(8) ? pick(32) : any_word(),
                                     .max_send_sge = pick(8) ? pick(5) : any_word(),
                                     .max_recv_sge = pick(8) ? pick(5) : any_word(),
                                     .max_inline_data = pick(8) ? pick(256) : any_word(),
                                     .sq_sig_all = (__u8)pick(2),
                                     .qp_type = (__u8)(pick(8) ? 2 + pick(3) : pick(16)),
                                     .is_srq = (__u8)!pick(4)};
  struct {
    struct ib_uverbs_create_qp_resp fixed;
    struct rxe_create_qp_resp rings;
  } answer;
  if (command(IB_USER_VERBS_CMD_CREATE_QP, &form, sizeof form, &answer, sizeof answer)) return;
  struct object qp = {.handle = answer.fixed.qp_handle, .number = answer.fixed.qpn};
  qp.rings[0] = map(&answer.rings.sq_mi);
  if (answer.rings.rq_mi.size) qp.rings[1] = map(&answer.rings.rq_mi);
  keep(&qps, qp);
}

static void register_memory(void) {
  unsigned char* memory =
      mmap(NULL, kRegionOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  struct ib_uverbs_reg_mr form = {.start = (__u64)(unsigned long)memory + pick(2) * pick(kPage),
                                  .length = pick(8) ? 1 + pick(kRegionOctets - kPage) : any_word(),
                                  .pd_handle = any_handle(&pds),
                                  .access_flags = pick(8) ? pick(16) : any_word()};
  form.hca_va = form.start;
  struct ib_uverbs_reg_mr_resp answer;
  if (command(IB_USER_VERBS_CMD_REG_MR, &form, sizeof form, &answer, sizeof answer)) {
    munmap(memory, kRegionOctets);
    return;
  }
  keep(&mrs, (struct object){.handle = answer.mr_handle, .number = answer.lkey, .memory = memory});
}

static void register_again(void) {
  struct object* const mr = any(&mrs);
  struct ib_uverbs_rereg_mr form = {.mr_handle = any_handle(&mrs),
                                    .flags = pick(8) ? 1 + pick(7) : any_word(),
                                    .start = (__u64)(unsigned long)mr->memory + pick(2) * pick(kPage),
                                    .length = pick(8) ? 1 + pick(kRegionOctets - kPage) : any_word(),
                                    .pd_handle = any_handle(&pds),
                                    .access_flags = pick(8) ? pick(16) : any_word()};
  form.hca_va = form.start;
  struct ib_uverbs_rereg_mr_resp answer;
  if (!command(IB_USER_VERBS_CMD_REREG_MR, &form, sizeof form, &answer, sizeof answer))
    mr->number = answer.lkey;
}

// The old ring stays mapped sometimes, and the new one unmapped.
static void resize_cq(void) {
  struct object* const cq = any(&cqs);
  struct ib_uverbs_resize_cq form = {.cq_handle = pick(8) ? cq->handle : any_handle(&cqs),
                                     .cqe = pick(8) ? 1 + pick(64) : any_word()};
  struct {
    struct ib_uverbs_resize_cq_resp fixed;
    struct rxe_resize_cq_resp ring;
  } answer;
  if (command(IB_USER_VERBS_CMD_RESIZE_CQ, &form, sizeof form, &answer, sizeof answer) || !cq->rings[0].at)
    return;
  if (!pick(4)) return;
  if (pick(4)) munmap(cq->rings[0].at, cq->rings[0].octets);
  cq->rings[0] = map(&answer.ring.mi);
}

static void change_windows(void) {
  struct ib_uverbs_alloc_mw form = {.pd_handle = any_handle(&pds),
                                    .mw_type = (__u8)(pick(8) ? 1 + pick(2) : pick(256))};
  struct ib_uverbs_alloc_mw_resp answer;
  if (pick(2))
    drop(&mws, IB_USER_VERBS_CMD_DEALLOC_MW, 0);
  else if (!command(IB_USER_VERBS_CMD_ALLOC_MW, &form, sizeof form, &answer, sizeof answer))
    keep(&mws, (struct object){.handle = answer.mw_handle, .number = answer.rkey});
}

static void create_something(void) {
  struct ib_uverbs_alloc_pd pd = {0};
  struct ib_uverbs_alloc_pd_resp pd_answer;
  switch (pick(8)) {
    case 0:
      if (!command(IB_USER_VERBS_CMD_ALLOC_PD, &pd, sizeof pd, &pd_answer, sizeof pd_answer))
        keep(&pds, (struct object){.handle = pd_answer.pd_handle});
      break;
    case 1: create_cq(); break;
    case 2: create_srq(); break;
    case 3:
    case 4: register_memory(); break;
    default: create_qp(); break;
  }
}

// One step towards a connection, in the right order as a rule.
static void modify(const struct object* qp, const struct object* peer, unsigned step) {
  // State, access, pkey and port; the path; the sender's half: for RC. Others fail, or are bent below.
  static const unsigned masks[] = {0, 0x39, 0x129181, 0x12e01};
  struct ib_uverbs_modify_qp form = {.qp_handle = qp->handle,
                                     .attr_mask = masks[step],
                                     .qp_state = (__u8)step,
                                     .port_num = 1,
                                     .qp_access_flags = 15,
                                     .path_mtu = 3,
                                     .dest_qp_num = peer->number,
                                     .max_dest_rd_atomic = 1,
                                     .max_rd_atomic = 1,
                                     .min_rnr_timer = 1,
                                     .timeout = 8,
                                     .retry_cnt = 1,
                                     .rnr_retry = 1};
  memcpy(form.dest.dgid, gid, sizeof gid);
  form.dest.is_global = 1;
  form.dest.port_num = 1;
  form.dest.sgid_index = 1;
  if (!pick(8)) form.qp_state = (__u8)pick(8);
  if (!pick(8)) form.attr_mask ^= 1u << pick(24);
  if (!pick(16)) form.dest.dgid[pick(16)] = (__u8)pick(256);
  command(IB_USER_VERBS_CMD_MODIFY_QP, &form, sizeof form, NULL, 0);
}

static void connect_pair(void) {
  const struct object *one = any(&qps), *other = any(&qps);
  for (unsigned step = 1; step <= 3; ++step) {
    modify(one, other, step);
    modify(other, one, step);
  }
}

// A request that is nearly right, in a slot of the ring.
static void write_request(struct ring ring, int send) {
  if (!ring.at) return;
  const struct object* mr = any(&mrs);
  struct rxe_send_wqe wqe;
  struct rxe_recv_wqe receive;
  memset(&wqe, 0, sizeof wqe);
  memset(&receive, 0, sizeof receive);
  wqe.wr.opcode = pick(8) ? pick(10) : any_word();
  wqe.wr.send_flags = pick(16);
  wqe.wr.wr.rdma.remote_addr = (__u64)(unsigned long)mr->memory + pick(kPage);
  wqe.wr.wr.rdma.rkey = mr->number;
  struct rxe_dma_info* dma = send ? &wqe.dma : &receive.dma;
  dma->num_sge = pick(8) ? pick(3) : any_word();
  dma->length = pick(8) ? pick(512) : any_word();
  const size_t fixed = send ? sizeof wqe : sizeof receive;
  struct rxe_sge list[2];
  for (int i = 0; i < 2; ++i) {
    list[i].addr = (__u64)(unsigned long)mr->memory + pick(2) * any_word();
    list[i].length = pick(8) ? pick(2 * kPage) : any_word();
    list[i].lkey = mr->number;
  }
  const unsigned producer = ring.at->producer_index & 63;
  unsigned char* at = ring.at->data + (size_t)producer * (send ? 256 : 128);
  if (at + fixed + sizeof list > (unsigned char*)ring.at + ring.octets) at = ring.at->data;
  if (at + fixed + sizeof list > (unsigned char*)ring.at + ring.octets) return;
  memcpy(at, send ? (void*)&wqe : (void*)&receive, fixed);
  memcpy(at + fixed, list, sizeof list);
  __atomic_store_n(&ring.at->producer_index, pick(8) ? producer + 1 : any_word(), __ATOMIC_RELEASE);
}

static void spoil(struct ring ring) {
  if (!ring.at) return;
  unsigned* word = (unsigned*)ring.at + (pick(2) ? pick(96) : pick((unsigned)(ring.octets / 4)));
  *word = pick(2) ? pick(64) : any_word();
}

static void ring_doorbell(void) {
  struct ib_uverbs_post_send form = {.qp_handle = any_handle(&qps),
                                     .wqe_size = sizeof(struct ib_uverbs_send_wr)};
  struct ib_uverbs_post_send_resp answer;
  command(IB_USER_VERBS_CMD_POST_SEND, &form, sizeof form, &answer, sizeof answer);
}

static void call_something(void) {
  unsigned words[64];
  for (int i = 0; i < 64; ++i) words[i] = pick(3) ? pick(16) : any_word();
  struct ib_uverbs_req_notify_cq notify = {.cq_handle = any_handle(&cqs), .solicited_only = pick(2)};
  struct ib_uverbs_modify_srq limit = {
      .srq_handle = any_handle(&srqs), .attr_mask = pick(4), .max_wr = pick(64), .srq_limit = pick(40)};
  unsigned char* at;
  switch (pick(12)) {
    case 0: command(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &notify, sizeof notify, NULL, 0); break;
    case 1: command(IB_USER_VERBS_CMD_MODIFY_SRQ, &limit, sizeof limit, NULL, 0); break;
    case 2:
      at = mmap(NULL, kPage * (1 + pick(4)), PROT_READ | PROT_WRITE, MAP_SHARED, file,
                (off_t)kPage * pick(4096));
      if (at != MAP_FAILED && pick(2)) munmap(at, kPage);
      break;
    case 3:
      // The memory of a region goes; its pages stay pinned.
      if (any(&mrs)->memory) munmap(any(&mrs)->memory, kPage);
      break;
    case 4: register_again(); break;
    case 5: change_windows(); break;
    case 6:
    case 7:
    case 8: resize_cq(); break;
    default: command(pick(44), words, 4 * pick(32), words + 32, 4 * pick(32)); break;
  }
}

static int live(const char* device) {
  if ((file = open(device, O_RDWR)) < 0) return 1;
  struct ib_uverbs_get_context form = {0};
  struct ib_uverbs_get_context_resp answer;
  if (command(IB_USER_VERBS_CMD_GET_CONTEXT, &form, sizeof form, &answer, sizeof answer)) return 1;
  for (int i = 0; i < 12; ++i) create_something();
  for (unsigned turns = pick(kTurnsMax); turns > 0; --turns) {
    const struct object* qp = any(&qps);
    switch (pick(16)) {
      case 0:
      case 1: create_something(); break;
      case 2: destroy_something(); break;
      case 3: connect_pair(); break;
      case 4: call_something(); break;
      case 5: spoil(any(&cqs)->rings[0]); break;
      case 6: spoil(any(&srqs)->rings[0]); break;
      case 7: spoil(qp->rings[pick(2)]); break;
      case 8: write_request(any(&srqs)->rings[0], 0); break;
      case 9:
      case 10: write_request(qp->rings[1], 0); break;
      case 11:
      case 12: write_request(qp->rings[0], 1); break;
      default: ring_doorbell(); break;
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  if (!read_gid(argv[2], gid)) return 2;
  const time_t end = time(NULL) + atoi(argv[3]);
  state = strtoull(argv[4], NULL, 0);
  pid_t workers[kWorkers] = {0};
  unsigned lives = 0, killed = 0, refused = 0;
  while (time(NULL) < end) {
    for (int i = 0; i < kWorkers; ++i) {
      int status = 0;
      if (workers[i] && waitpid(workers[i], &status, WNOHANG) == 0) {
        if (pick(64)) continue;
        kill(workers[i], SIGKILL);
        waitpid(workers[i], &status, 0);
        ++killed;
      }
      refused += WIFEXITED(status) && WEXITSTATUS(status) != 0;
      ++lives;
      (void)pick(2);
      workers[i] = fork();
      if (workers[i] == 0) {
        state += (unsigned long long)lives << 32;
        _exit(live(argv[1]));
      }
    }
    usleep(20000);
  }
  for (int i = 0; i < kWorkers; ++i) {
    if (workers[i] <= 0) continue;
    kill(workers[i], SIGKILL);
    waitpid(workers[i], NULL, 0);
  }
  printf("%u hostile programs, %u killed, %u without the device, seed %s\n", lives, killed, refused, argv[4]);
  return refused > lives / 2;
}
