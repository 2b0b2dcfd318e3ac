// SPDX-License-Identifier: BSD-2-Clause
// Daemons that refuse, lie, or die at a chosen moment, each with a program on the device. The daemon is this
// process, the program its child.
//
//   dying DEVICE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rrdma_abi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kPage = 4096, kReceives = 4, kForged = 77, kFatal = 1, kReceive = 128, kHandles = 48, kAnswers = 30 };
enum { kProducerAt = 128, kConsumerAt = 256, kDataAt = 384, kSlot = 64 };
enum { kPosts = 300, kRungMost = 50, kLongestMs = 250 };

static const char* device;
static int file = -1;
static struct rrdma_ring_form doorbell_ring;
static int told[2], heard[2];  // pipes: of the program to the daemon, and back

static void die(const char* what) {
  perror(what);
  exit(2);
}

// ---- The daemon. ----

static void attach(void) {
  struct rrdma_attach form = {.version = RRDMA_ABI_VERSION};
  strncpy(form.device, device, sizeof form.device - 1);
  // The objects of the last daemon may still flush.
  for (int tries = 0; tries < 200; ++tries) {
    file = open("/dev/rrdma", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && ioctl(file, RRDMA_IOC_ATTACH, &form) == 0) {
      doorbell_ring = form.doorbells;
      return;
    }
    if (errno != EBUSY) die("attach");
    close(file);
    usleep(20000);
  }
  die("attach");
}

static void end_of_daemon(void) {
  close(file);
  file = -1;
}

static void reply(const struct rrdma_request* request, int error) {
  static unsigned next = 100;
  struct rrdma_reply answer = {.tag = request->tag, .error = error, .number = next++};
  if (request->tag != 0 && write(file, &answer, sizeof answer) != sizeof answer) die("reply");
}

// Handles a request. It may end the daemon.
typedef void (*hook)(const struct rrdma_request*);

static void raise_and_refuse(const struct rrdma_request* request) {
  struct rrdma_event event = {.handle = request->handle, .event = kFatal};
  if (request->op != RRDMA_OP_CREATE_QP) return reply(request, 0);
  (void)ioctl(file, RRDMA_IOC_EVENT, &event);
  reply(request, -EPERM);
}

static unsigned doorbells;

// It looks again when the QP is gone.
static void postpone_and_refuse(const struct rrdma_request* request) {
  struct rrdma_postpone postpone = {.handle = request->handle};
  doorbells += request->op == RRDMA_OP_DOORBELL;
  if (request->op != RRDMA_OP_CREATE_QP) return reply(request, 0);
  (void)ioctl(file, RRDMA_IOC_POSTPONE, &postpone);
  reply(request, -EPERM);
  usleep(300000);
}

static unsigned char* map_ring(const struct rrdma_ring_form* form) {
  unsigned char* ring = mmap(NULL, form->octets, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                             (off_t)(RRDMA_RING_PAGE(form->handle) * kPage));
  if (ring == MAP_FAILED) die("mmap of a ring");
  return ring;
}

// As a daemon that has moved the CQ, and completed a request since.
static void begin_the_new_ring(const struct rrdma_ring_form* form) {
  unsigned char* ring = map_ring(form);
  *(unsigned long long*)(ring + kDataAt) = kForged;
  *(unsigned*)(ring + kDataAt + 12) = kReceive;
  __atomic_store_n((unsigned*)(ring + kProducerAt), 1, __ATOMIC_RELEASE);
  munmap(ring, form->octets);
}

static void die_in_resize(const struct rrdma_request* request) {
  if (request->op != RRDMA_OP_RESIZE_CQ) return reply(request, 0);
  begin_the_new_ring(&request->resize.ring);
  end_of_daemon();
}

static void die_after_resize(const struct rrdma_request* request) {
  if (request->op != RRDMA_OP_RESIZE_CQ) return reply(request, 0);
  begin_the_new_ring(&request->resize.ring);
  reply(request, 0);
  end_of_daemon();
}

static void die_in_creation(const struct rrdma_request* request) {
  if (request->op != RRDMA_OP_CREATE_QP) return reply(request, 0);
  end_of_daemon();
}

static void die_in_query(const struct rrdma_request* request) {
  if (request->op != RRDMA_OP_QUERY_QP) return reply(request, 0);
  end_of_daemon();
}

// How far it comes with the completion of the first receive.
enum { kNotWritten, kNamed, kSlotFreed, kPublished, kSteps };
static int step;

static void die_in_completion(const struct rrdma_request* request) {
  static struct rrdma_request made;
  if (request->op == RRDMA_OP_CREATE_QP) made = *request;
  if (request->op != RRDMA_OP_QUERY_QP) return reply(request, 0);
  unsigned char* queue = map_ring(&made.create_qp.receive_cq.ring);
  unsigned char* receives = map_ring(&made.create_qp.receives);
  struct rrdma_published* published = (struct rrdma_published*)((unsigned*)queue + RRDMA_PUBLISHED_WORD);
  memset(queue + kDataAt, 0, kSlot);  // of the request with wr_id 0
  *(unsigned*)(queue + kDataAt + 12) = kReceive;
  published->producer = published->consumer = 1;
  if (step >= kNamed) published->queue = made.handle << 1 | 1;
  if (step >= kSlotFreed) *(volatile unsigned*)(receives + kConsumerAt) = 1;
  if (step >= kPublished) *(volatile unsigned*)(queue + kProducerAt) = 1;
  munmap(queue, made.create_qp.receive_cq.ring.octets);
  munmap(receives, made.create_qp.receives.octets);
  end_of_daemon();
}

static void accept_all(const struct rrdma_request* request) { reply(request, 0); }

// As the thread of a daemon that moves packets, and goes to sleep. Then programs that ring yield to it.
static void look_for_doorbells(void) {
  struct pollfd doorbell = {.fd = file, .events = POLLIN};
  (void)poll(&doorbell, 1, 1);
}

// It takes them, and does nothing. True if there were any.
static int take(void) {
  unsigned char* ring = map_ring(&doorbell_ring);
  volatile unsigned* const consumer = (volatile unsigned*)(ring + kConsumerAt);
  const unsigned producer = *(volatile unsigned*)(ring + kProducerAt);
  const int any = *consumer != producer;
  *consumer = producer;
  munmap(ring, doorbell_ring.octets);
  return any;
}

static void take_doorbells(void) {
  (void)take();
  look_for_doorbells();
}

static void end_soon(void) {
  static unsigned rung;
  rung += (unsigned)take();
  if (rung < kRungMost) return look_for_doorbells();
  end_of_daemon();
}

static void pause_a_moment(void) { usleep(1000); }
static void (*rest)(void) = pause_a_moment;

// It never heard of the CQ.
static void know_no_queue(const struct rrdma_request* request) {
  reply(request, request->op == RRDMA_OP_RESIZE_CQ ? -ENOENT : 0);
}

static int has_ended(pid_t program) {
  siginfo_t ended = {0};
  return waitid(P_PID, (id_t)program, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0;
}

// Until the program ends, or the daemon.
static void serve(pid_t program, hook handle) {
  while (file >= 0 && !has_ended(program)) {
    struct rrdma_request request;
    if (read(file, &request, sizeof request) == (ssize_t)sizeof request)
      handle(&request);
    else
      rest();
  }
}

// ---- The programs. ----

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;

static void open_device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  for (int i = 0; list && list[i]; ++i)
    if (strcmp(ibv_get_device_name(list[i]), device) == 0) context = ibv_open_device(list[i]);
  if (!context || !(pd = ibv_alloc_pd(context)) || !(cq = ibv_create_cq(context, 16, NULL, NULL, 0)))
    die("open");
}

static struct ibv_srq* srq;

static struct ibv_qp* create_qp(void) {
  struct ibv_qp_init_attr form = {
      .send_cq = cq,
      .recv_cq = cq,
      .srq = srq,
      .cap = {.max_send_wr = 4, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  return ibv_create_qp(pd, &form);
}

static int hear_nothing_of_a_refused_qp(void) {
  open_device();
  if (create_qp()) return 1;
  struct pollfd events = {.fd = context->async_fd, .events = POLLIN};
  return poll(&events, 1, 300) == 0 ? 0 : 1;
}

static int be_refused(void) {
  open_device();
  return create_qp() ? 1 : 0;
}

static struct ibv_qp* qp_with_receives(void) {
  open_device();
  struct ibv_qp* qp = create_qp();
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  if (!qp || ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    die("QP");
  for (int i = 0; i < kReceives; ++i) {
    struct ibv_recv_wr receive = {.wr_id = (unsigned)i}, *bad;
    if (ibv_post_recv(qp, &receive, &bad)) die("post_recv");
  }
  return qp;
}

// The completion in the new ring, and a flush for each receive.
static int lose_nothing_in_a_resize(void) {
  (void)qp_with_receives();
  const int error = ibv_resize_cq(cq, 64);
  if (error != 0) printf("ibv_resize_cq: %s\n", strerror(error));
  unsigned seen = 0, forged = 0;
  for (int tries = 0; tries < 1000 && seen + forged < kReceives + 1; ++tries) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) > 0) {
      forged += wc.wr_id == kForged;
      seen += wc.wr_id < kReceives && wc.status == IBV_WC_WR_FLUSH_ERR;
    }
    usleep(1000);
  }
  if (seen != kReceives || forged != 1)
    printf("%u of %d flushed, %u of 1 completed\n", seen, kReceives, forged);
  fflush(stdout);
  return seen == kReceives && forged == 1 ? 0 : 1;
}

// Each receive completes once; the first one with success, unless the daemon has only begun.
static int complete_each_once(void) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  unsigned times[kReceives] = {0}, successes = 0, wrong = 0;
  (void)ibv_query_qp(qp_with_receives(), &attr, IBV_QP_STATE, &init);
  for (int tries = 0; tries < 300; ++tries) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) > 0) {
      if (wc.wr_id < kReceives) ++times[wc.wr_id];
      successes += wc.status == IBV_WC_SUCCESS;
    }
    usleep(1000);
  }
  for (int i = 0; i < kReceives; ++i) {
    wrong += times[i] != 1;
    if (times[i] != 1) printf("step %d: receive %d completed %u times\n", step, i, times[i]);
  }
  if (successes != (step != kNotWritten)) printf("step %d: %u successes\n", step, successes);
  fflush(stdout);
  return wrong != 0 || successes != (step != kNotWritten);
}

static void wait_for_the_next_daemon(void) {
  char byte = 0;
  if (write(told[1], &byte, 1) != 1 || read(heard[0], &byte, 1) != 1) die("pipe");
}

static int resize_what_no_daemon_knows(void) {
  open_device();
  if (create_qp() || create_qp()) return 1;
  wait_for_the_next_daemon();
  return ibv_resize_cq(cq, 64);
}

static void connect_qp(struct ibv_qp* qp) {
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  int error = ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};
  to.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}};
  error = error || ibv_query_gid(context, 1, 1, &to.ah_attr.grh.dgid) ||
          ibv_modify_qp(qp, &to,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
  error = error || ibv_modify_qp(qp, &to,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error) die("connect");
}

// The next daemon writes to its CQ, so the kernel cannot flush the request: it is refused.
static int post_to_a_dead_qp(void) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
  struct ibv_wc wc;
  open_device();
  struct ibv_qp* qp = create_qp();
  if (!qp) die("QP");
  connect_qp(qp);
  (void)ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
  wait_for_the_next_daemon();
  if (!create_qp()) die("QP of the next daemon");
  if (ibv_post_send(qp, &send, &bad) != 0) return 0;
  for (int tries = 0; tries < 300; ++tries) {
    if (ibv_poll_cq(cq, 1, &wc) > 0) return 0;
    usleep(1000);
  }
  return 1;
}

static int has_event(enum ibv_event_type wanted) {
  struct pollfd events = {.fd = context->async_fd, .events = POLLIN};
  struct ibv_async_event event;
  while (poll(&events, 1, 300) == 1 && ibv_get_async_event(context, &event) == 0) {
    ibv_ack_async_event(&event);
    if (event.event_type == wanted) return 1;
  }
  return 0;
}

// The next daemon does not know which of its receives the last one had taken.
static int lose_an_srq(void) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  struct ibv_srq_init_attr form = {.attr = {.max_wr = kReceives, .max_sge = 1}};
  open_device();
  struct ibv_srq* const lost = srq = ibv_create_srq(pd, &form);
  struct ibv_qp* qp = create_qp();
  if (!lost || !qp) die("SRQ");
  (void)ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
  wait_for_the_next_daemon();
  const int heard_of_it = has_event(IBV_EVENT_SRQ_ERR);
  const int refused = !create_qp() && errno == ENETDOWN;
  srq = ibv_create_srq(pd, &form);
  const int served = srq && create_qp();
  if (heard_of_it && refused && served) return 0;
  printf("event %d, refused %d, the next one %d\n", heard_of_it, refused, served);
  fflush(stdout);
  return 1;
}

// A program yields to the daemon only if its processor has more to do.
static pid_t share_a_processor(void) {
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  if (sched_setaffinity(0, sizeof first, &first) != 0) die("sched_setaffinity");
  const pid_t spinner = fork();
  if (spinner != 0) return spinner;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
  }
}

static long ms_since(const struct timespec* begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
}

// No post takes long, whatever the daemon does. The provider rings even if the queue is full.
static int post_many(struct ibv_qp* qp) {
  struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
  long longest = 0;
  for (int i = 0; i < kPosts; ++i) {
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    (void)ibv_post_send(qp, &send, &bad);
    const long took = ms_since(&begin);
    if (took > longest) longest = took;
  }
  if (longest > kLongestMs) printf("a post took %ld ms\n", longest);
  fflush(stdout);
  return longest > kLongestMs;
}

static struct ibv_qp* connected_qp(void) {
  open_device();
  struct ibv_qp* qp = create_qp();
  if (!qp) die("QP");
  connect_qp(qp);
  return qp;
}

static int post_beside_a_spinner(void) {
  struct ibv_qp* qp = connected_qp();
  const pid_t spinner = share_a_processor();
  const int failed = post_many(qp);
  kill(spinner, SIGKILL);
  return failed;
}

static int post_to_a_stopped_daemon(void) {
  struct ibv_qp* qp = connected_qp();
  const pid_t spinner = share_a_processor();
  usleep(20000);  // the daemon waits for doorbells
  kill(getppid(), SIGSTOP);
  const int failed = post_many(qp);
  kill(getppid(), SIGCONT);
  kill(spinner, SIGKILL);
  return failed;
}

static pid_t start(int (*program)(void)) {
  const pid_t child = fork();
  if (child != 0) return child;
  close(file);
  _exit(program());
}

static int code_of(pid_t program) {
  int status = 0;
  if (waitpid(program, &status, 0) != program) die("waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int failures;

static void judge(const char* name, int passed) {
  printf("%s %s\n", passed ? "ok" : "FAILED", name);
  fflush(stdout);
  failures += !passed;
}

static int run(int (*program)(void), hook handle) {
  attach();
  const pid_t child = start(program);
  serve(child, handle);
  const int code = code_of(child);
  if (file >= 0) end_of_daemon();
  return code;
}

static int run_resting(int (*program)(void), void (*how)(void)) {
  rest = how;
  const int code = run(program, accept_all);
  rest = pause_a_moment;
  return code;
}

// The program waits for the second daemon.
static int run_two(int (*program)(void), hook first, hook second) {
  char byte = 0;
  if (pipe(told) != 0 || pipe(heard) != 0) die("pipe");
  attach();
  const pid_t child = start(program);
  close(told[1]);
  close(heard[0]);
  serve(child, first);
  if (file < 0 && read(told[0], &byte, 1) == 1) {
    attach();
    if (write(heard[1], &byte, 1) != 1) die("pipe");
    serve(child, second);
  }
  const int code = code_of(child);
  if (file >= 0) end_of_daemon();
  close(told[0]);
  close(heard[1]);
  return code;
}

// Completes receives of QP1 by itself, of each second slot: in the name of each of the oldest objects.
static void forge(unsigned char* ring, unsigned slots) {
  unsigned producer = *(unsigned*)(ring + kProducerAt);
  for (unsigned i = 0; i + 1 < slots; ++i, ++producer) {
    unsigned char* slot = ring + kDataAt + (size_t)(producer & (slots - 1)) * kSlot;
    memset(slot, 0, kSlot);
    *(unsigned long long*)slot = 2 * (i / kHandles);
    *(unsigned*)(slot + 12) = kReceive;
    *(unsigned*)(slot + 48) = 1 + i % kHandles;
  }
  __atomic_store_n((unsigned*)(ring + kProducerAt), producer & (slots - 1), __ATOMIC_RELEASE);
}

static void forge_completions_of_qp1(void) {
  unsigned rings = 0;
  attach();
  for (unsigned handle = 1; handle <= kHandles; ++handle) {
    for (unsigned slots = 2; slots <= 1 << 17; slots *= 2) {
      const size_t octets = (kDataAt + (size_t)slots * kSlot + kPage - 1) / kPage * kPage;
      unsigned char* ring = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                                 (off_t)(RRDMA_RING_PAGE(handle) * kPage));
      if (ring == MAP_FAILED) continue;
      forge(ring, slots);
      munmap(ring, octets);
      ++rings;
      break;
    }
    struct rrdma_notify notify = {.handle = handle};
    for (unsigned queue = 1; queue <= kHandles; ++queue) {
      notify.handle = queue;
      (void)ioctl(file, RRDMA_IOC_NOTIFY, &notify);
    }
  }
  usleep(200000);
  end_of_daemon();
  judge("forged completions of QP1", rings > 0);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  device = argv[1];
  judge("no event of a QP that was refused", run(hear_nothing_of_a_refused_qp, raise_and_refuse) == 0);
  judge("no doorbell of a QP that was refused", run(be_refused, postpone_and_refuse) == 0 && doorbells == 0);
  judge("receives flush after a daemon that died in a resize",
        run(lose_nothing_in_a_resize, die_in_resize) == 0);
  int lost = 0;
  for (int i = 0; i < kAnswers; ++i) lost += run(lose_nothing_in_a_resize, die_after_resize) != 0;
  if (lost != 0) printf("%d of %d times\n", lost, kAnswers);
  judge("receives flush after a daemon that died when it had resized", lost == 0);
  lost = 0;
  for (step = 0; step < kSteps; ++step) lost += run(complete_each_once, die_in_completion) != 0;
  judge("each receive completes once after a daemon that died in a completion", lost == 0);
  judge("a CQ of which only a dead daemon heard is resized",
        run_two(resize_what_no_daemon_knows, die_in_creation, know_no_queue) == 0);
  judge("a send to a dead QP completes or is refused",
        run_two(post_to_a_dead_qp, die_in_query, accept_all) == 0);
  judge("an SRQ ends with its daemon", run_two(lose_an_srq, die_in_query, accept_all) == 0);
  judge("no post waits for a daemon that takes no doorbells",
        run_resting(post_beside_a_spinner, look_for_doorbells) == 0);
  judge("no post waits for a daemon that takes doorbells only",
        run_resting(post_beside_a_spinner, take_doorbells) == 0);
  judge("no post waits for a stopped daemon", run_resting(post_to_a_stopped_daemon, take_doorbells) == 0);
  judge("no post waits for a daemon that dies", run_resting(post_beside_a_spinner, end_soon) == 0);
  forge_completions_of_qp1();
  return failures != 0;
}
