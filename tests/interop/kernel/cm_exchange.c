// SPDX-License-Identifier: BSD-2-Clause
// A connection by rdma_cm in one process: a server, a client, a message each way, compared. It is linked
// statically with librdmacm, libibverbs and the rxe provider.
//
//   cm_exchange ADDRESS PORT
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kOctets = 4096 };

static const char *address, *port;
static struct rdma_cm_id* listener;

static void die(const char* what) {
  perror(what);
  exit(1);
}

static struct rdma_cm_id* endpoint(int passive) {
  struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | (passive ? RAI_PASSIVE : 0),
                                .ai_port_space = RDMA_PS_TCP},
                       *found;
  if (rdma_getaddrinfo(address, port, &hints, &found)) die("rdma_getaddrinfo");
  struct ibv_qp_init_attr init = {
      .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  struct rdma_cm_id* id;
  if (rdma_create_ep(&id, found, NULL, &init)) die("rdma_create_ep");
  rdma_freeaddrinfo(found);
  return id;
}

// Sends one buffer, receives another; `first` says which comes first.
static void exchange(struct rdma_cm_id* id, unsigned char* to, struct ibv_mr* to_mr, int first) {
  unsigned char from[kOctets];
  for (int i = 0; i < kOctets; ++i) from[i] = (unsigned char)(i * 13 + first);
  struct ibv_mr* mr = rdma_reg_msgs(id, from, kOctets);
  if (!mr) die("rdma_reg_msgs");
  struct ibv_wc wc;
  for (int step = 0; step < 2; ++step) {
    if ((step == 0) == first) {
      if (rdma_post_send(id, NULL, from, kOctets, mr, 0) || rdma_get_send_comp(id, &wc) <= 0 || wc.status)
        die("send");
    } else {
      if (rdma_get_recv_comp(id, &wc) <= 0 || wc.status) die("receive");
      for (int i = 0; i < kOctets; ++i)
        if (to[i] != (unsigned char)(i * 13 + !first)) exit(3);
    }
  }
  rdma_dereg_mr(mr);
  rdma_dereg_mr(to_mr);
}

static void* serve(void* unused) {
  struct rdma_cm_id* id;
  static unsigned char to[kOctets];
  if (rdma_get_request(listener, &id)) die("rdma_get_request");
  struct ibv_mr* mr = rdma_reg_msgs(id, to, kOctets);
  if (!mr || rdma_post_recv(id, NULL, to, kOctets, mr)) die("rdma_post_recv");
  if (rdma_accept(id, NULL)) die("rdma_accept");
  exchange(id, to, mr, 0);
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  return unused;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  address = argv[1];
  port = argv[2];
  // In a static program this call, in a file with RDMA_STATIC_PROVIDERS, makes the provider known.
  struct ibv_device** devices = ibv_get_device_list(NULL);
  if (devices) ibv_free_device_list(devices);
  listener = endpoint(1);
  if (rdma_listen(listener, 1)) die("rdma_listen");
  pthread_t server;
  if (pthread_create(&server, NULL, serve, NULL)) return 1;
  struct rdma_cm_id* id = endpoint(0);
  static unsigned char to[kOctets];
  struct ibv_mr* mr = rdma_reg_msgs(id, to, kOctets);
  if (!mr || rdma_post_recv(id, NULL, to, kOctets, mr)) die("rdma_post_recv");
  if (rdma_connect(id, NULL)) die("rdma_connect");
  exchange(id, to, mr, 1);
  rdma_disconnect(id);
  rdma_destroy_ep(id);
  pthread_join(server, NULL);
  rdma_destroy_ep(listener);
  printf("rdma_cm: %d bytes each way\n", kOctets);
  return 0;
}
