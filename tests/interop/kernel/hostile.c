// SPDX-License-Identifier: BSD-2-Clause
// A hostile daemon: it attaches to the device and answers, notifies, delivers, copies and maps at random,
// and writes at random into every ring that it can map. A hostile program: the same on its side is the
// ring itself, which both map. The kernel must survive; nothing else is asked.
//
//   hostile DEVICE SECONDS SEED
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rrdma_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "words.h"

enum { kRings = 64, kPage = 4096, kTriesMax = 500 };

static int file;
static struct {
  unsigned char* at;
  size_t octets;
} rings[kRings];
static unsigned handles = 1;
static struct rrdma_ring_form doorbells;

static void fill(void* at, size_t octets) {
  for (size_t i = 0; i + 4 <= octets; i += 4) {
    const unsigned word = pick(3) ? pick(16) : any_word();
    memcpy((char*)at + i, &word, 4);
  }
}

static void map_ring(const struct rrdma_ring_form* form) {
  if (form->handle == 0) return;
  const unsigned i = pick(kRings);
  if (rings[i].at != NULL) munmap(rings[i].at, rings[i].octets);
  rings[i].at = mmap(NULL, form->octets, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                     (off_t)(RRDMA_RING_PAGE(form->handle) * kPage));
  rings[i].octets = form->octets;
  if (rings[i].at == MAP_FAILED) rings[i].at = NULL;
}

static void spoil_a_ring(void) {
  const unsigned i = pick(kRings);
  if (rings[i].at == NULL) return;
  // The header, or anything.
  unsigned* word = (unsigned*)rings[i].at + (pick(2) ? pick(96) : pick((unsigned)(rings[i].octets / 4)));
  *word = pick(2) ? pick(64) : any_word();
}

static void answer(const struct rrdma_request* request) {
  if (request->handle > handles && request->handle <= RRDMA_HANDLE_MAX) handles = request->handle;
  if (request->op == RRDMA_OP_CREATE_QP) {
    map_ring(&request->create_qp.sends);
    map_ring(&request->create_qp.receives);
    map_ring(&request->create_qp.send_cq.ring);
    map_ring(&request->create_qp.receive_cq.ring);
  }
  struct rrdma_reply reply;
  fill(&reply, sizeof reply);
  reply.tag = pick(16) ? request->tag : any_word();
  if (pick(8)) reply.error = 0;
  if (pick(8)) reply.number = 2 + pick(0xfffff0);
  if (pick(32)) (void)!write(file, &reply, sizeof reply);
}

static void map_a_region(void) {
  const unsigned handle = pick(handles + 4);
  unsigned char* at = mmap(NULL, kPage, pick(2) ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, file,
                           (off_t)((RRDMA_REGION_PAGE(handle) + (pick(8) ? 0 : pick(9))) * kPage));
  if (at != MAP_FAILED) munmap(at, kPage);
}

static void copy(void) {
  static unsigned char buffer[70000];
  unsigned long long place =
      pick(2) ? RRDMA_FAST_BASE | (unsigned long long)pick(handles + 4) << RRDMA_FAST_OFFSET_BITS
              : RRDMA_GRANT_BASE | (unsigned long long)pick(64) << 46 | (unsigned long long)pick(128) << 33 |
                    (unsigned long long)pick(4) << 28;
  place += pick(2) ? pick(8192) : any_word();
  const size_t octets = pick(8) ? pick(512) : pick(sizeof buffer);
  // Reads only: a write within a grant is the daemon's right, and would spoil what the kernel's users trust.
  (void)!pread(file, buffer, octets, (off_t)place);
}

static void call(void) {
  struct rrdma_notify notify = {.handle = pick(handles + 4)};
  struct rrdma_event event = {.handle = pick(handles + 4), .event = pick(24)};
  struct rrdma_mad mad;
  struct pollfd doorbell = {.fd = file, .events = POLLIN};
  struct rrdma_postpone postpone = {.handle = pick(handles + 4)};
  switch (pick(6)) {
    case 0: (void)ioctl(file, RRDMA_IOC_NOTIFY, &notify); break;
    case 1: (void)ioctl(file, RRDMA_IOC_EVENT, &event); break;
    case 2:
      fill(&mad, sizeof mad);
      (void)ioctl(file, RRDMA_IOC_MAD, &mad);
      break;
    case 3:
      if (pick(4) == 0) map_ring(&doorbells);
      (void)poll(&doorbell, 1, 0);
      break;
    case 4: (void)ioctl(file, RRDMA_IOC_POSTPONE, &postpone); break;
    default: (void)ioctl(file, any_word(), &mad); break;
  }
}

// The port is down before the objects of the last daemon have flushed: EBUSY until then.
static int attach(const char* device) {
  struct rrdma_attach form = {.version = RRDMA_ABI_VERSION};
  strncpy(form.device, device, sizeof form.device - 1);
  for (int tries = 0; tries < kTriesMax; ++tries) {
    file = open("/dev/rrdma", O_RDWR | O_NONBLOCK);
    if (file >= 0 && ioctl(file, RRDMA_IOC_ATTACH, &form) == 0) {
      doorbells = form.doorbells;
      map_ring(&doorbells);
      return 0;
    }
    if (errno != EBUSY) break;
    close(file);
    usleep(20000);
  }
  perror("attach");
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  state = strtoull(argv[3], NULL, 0);
  const time_t end = time(NULL) + atoi(argv[2]);
  unsigned long turns = 0, requests = 0;
  while (time(NULL) < end) {
    if (attach(argv[1])) return 1;
    // Each life is short, so that attaching and dying are tried as often as the rest.
    for (unsigned life = 20000 + pick(20000); life > 0 && time(NULL) < end; --life, ++turns) {
      struct rrdma_request request;
      if (read(file, &request, sizeof request) == (ssize_t)sizeof request) {
        ++requests;
        answer(&request);
      }
      switch (pick(8)) {
        case 0: map_a_region(); break;
        case 1: copy(); break;
        case 2: call(); break;
        default: spoil_a_ring(); break;
      }
    }
    for (unsigned i = 0; i < kRings; ++i) {
      if (rings[i].at != NULL) munmap(rings[i].at, rings[i].octets);
      rings[i].at = NULL;
    }
    close(file);
  }
  printf("%lu turns, %lu requests, seed %s\n", turns, requests, argv[3]);
  return 0;
}
