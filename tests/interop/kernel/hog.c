// SPDX-License-Identifier: BSD-2-Clause
// Registers memory until it is refused. Then everything is refused with ENOMEM, until it gives some back, and
// the daemon has mappings left.
//
//   hog DEVICE MAPS MOST    MAPS: of the daemon, in /proc; it has MOST lines at most
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 200000, kPage = 4096, kGivenBack = 16 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_mr* regions[kMost];

static void die(const char* what) {
  perror(what);
  exit(1);
}

static struct ibv_qp* create_qp(void) {
  struct ibv_qp_init_attr form = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  return ibv_create_qp(pd, &form);
}

static int lines_of(const char* name) {
  FILE* file = fopen(name, "r");
  int lines = 0, next;
  if (!file) die(name);
  while ((next = getc(file)) != EOF) lines += next == '\n';
  fclose(file);
  return lines;
}

int main(int argc, char** argv) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  int count = 0;
  void* page = aligned_alloc(kPage, kPage);
  for (int i = 0; argc == 4 && list && list[i]; ++i)
    if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0) context = ibv_open_device(list[i]);
  if (!context || !page || !(pd = ibv_alloc_pd(context)) || !(cq = ibv_create_cq(context, 16, NULL, NULL, 0)))
    die("open");
  while (count < kMost && (regions[count] = ibv_reg_mr(pd, page, kPage, IBV_ACCESS_LOCAL_WRITE))) ++count;
  if (count == kMost) return 1;
  if (errno != ENOMEM) die("ibv_reg_mr");
  const int mappings = lines_of(argv[2]);
  printf("%d regions, %d mappings\n", count, mappings);
  fflush(stdout);
  if (mappings > atoi(argv[3])) return 1;
  if (create_qp() || errno != ENOMEM) die("a QP beside them");
  for (int i = 0; i < kGivenBack; ++i)
    if (ibv_dereg_mr(regions[i])) die("ibv_dereg_mr");
  if (!create_qp()) die("a QP in their place");
  return 0;
}
