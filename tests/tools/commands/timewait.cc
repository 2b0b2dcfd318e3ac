// A connection of this process with itself, opened and closed with rdma_cm. Prints the milliseconds in
// TIMEWAIT, and the result of a second connect from the same queue pair meanwhile. Argument: the address.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

void check(int rc, const char* what) {
  if (rc != 0) give_up(what);
}

// A queue pair for its number: the daemon lets a program connect only its own.
std::uint32_t make_qp(ibv_context* context) {
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  if (pd == nullptr || cq == nullptr) give_up("ibv_create_cq");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &attributes);
  if (qp == nullptr) give_up("ibv_create_qp");
  return qp->qp_num;
}

struct Told {
  rdma_cm_id* id;
  rdma_cm_event_type type;
  int status;
};

// The next event of this kind, or a rejection. Skips other events.
Told await(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  for (;;) {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    const Told told{event->id, event->event, event->status};
    check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    if (told.type == wanted || told.type == RDMA_CM_EVENT_REJECTED) return told;
  }
}

rdma_cm_id* call(rdma_event_channel* channel, sockaddr_in& to) {
  rdma_cm_id* id = nullptr;
  check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
  check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 5000), "rdma_resolve_addr");
  (void)await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id, 5000), "rdma_resolve_route");
  (void)await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param parameters{};
  static const std::uint32_t qpn = make_qp(id->verbs);  // of every call
  parameters.qp_num = qpn;
  check(rdma_connect(id, &parameters), "rdma_connect");
  return id;
}

}  // namespace

int main(int, char** argv) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) give_up("rdma_create_event_channel");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) return 2;
  rdma_cm_id* listener = nullptr;
  check(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), "rdma_create_id");
  check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
  check(rdma_listen(listener, 4), "rdma_listen");
  address.sin_port = rdma_get_src_port(listener);

  rdma_cm_id* const caller = call(channel, address);
  rdma_cm_id* const server = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST).id;
  rdma_conn_param parameters{};
  parameters.qp_num = make_qp(server->verbs);
  check(rdma_accept(server, &parameters), "rdma_accept");
  (void)await(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
  check(rdma_establish(caller), "rdma_establish");
  (void)await(channel, RDMA_CM_EVENT_ESTABLISHED);

  check(rdma_disconnect(caller), "rdma_disconnect");
  while (await(channel, RDMA_CM_EVENT_DISCONNECTED).id != server) {
  }
  const auto begin = std::chrono::steady_clock::now();
  (void)rdma_disconnect(server);
  rdma_cm_id* const again = call(channel, address);
  const Told answer = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  std::printf("called again: %s %d\n", rdma_event_str(answer.type), answer.status);
  while (await(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT).id != server) {
  }
  const auto time = std::chrono::steady_clock::now() - begin;
  std::printf("timewait %lld\n",
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
  if (answer.type == RDMA_CM_EVENT_CONNECT_REQUEST) rdma_destroy_id(answer.id);
  for (rdma_cm_id* id : {again, caller, server, listener}) rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
  return 0;
}
