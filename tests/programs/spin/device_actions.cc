// Calls about the device, its port and its events.
#include <fcntl.h>

#include <cstring>

#include "world.h"

namespace spin {

void World::query_device() {
  ibv_device_attr attr;
  verdicts_.number("ibv_query_device", ibv_query_device(shared_.context, &attr), Expect::kSuccess, {});
  ibv_device_attr_ex full;
  ibv_query_device_ex_input input{};
  input.comp_mask = chance(20) ? 1 : 0;
  verdicts_.number("ibv_query_device_ex", ibv_query_device_ex(shared_.context, &input, &full),
                   input.comp_mask != 0 ? Expect::kRefusal : Expect::kSuccess, {EINVAL});
}

void World::query_port() {
  const std::uint8_t port = static_cast<std::uint8_t>(below(4));
  ibv_port_attr attr;
  verdicts_.number("ibv_query_port", ibv_query_port(shared_.context, port, &attr),
                   port == 1 ? Expect::kSuccess : Expect::kRefusal, {EINVAL});
}

void World::query_gid() {
  const int index = static_cast<int>(below(200)) - 10;
  const std::uint8_t port = chance(90) ? 1 : 2;
  const bool right = port == 1 && index >= 0 && index < 128;
  ibv_gid gid;
  verdicts_.minus_one("ibv_query_gid", ibv_query_gid(shared_.context, port, index, &gid),
                      right ? Expect::kSuccess : Expect::kRefusal, {EINVAL});
  ibv_gid_entry entry;
  verdicts_.number(
      "ibv_query_gid_ex",
      ibv_query_gid_ex(shared_.context, port, static_cast<std::uint32_t>(index), &entry, chance(10) ? 4 : 0),
      right ? Expect::kEither : Expect::kRefusal, {EINVAL, ENODATA});
  ibv_gid_entry table[128];
  const ssize_t count = ibv_query_gid_table(shared_.context, table, below(2) * 128, 0);
  verdicts_.require("ibv_query_gid_table", count >= 1 || count == -EINVAL,
                    "answered " + std::to_string(count));
}

void World::query_pkey() {
  const int index = static_cast<int>(below(3)) - 1;
  __be16 pkey = 0;
  verdicts_.minus_one("ibv_query_pkey", ibv_query_pkey(shared_.context, 1, index, &pkey),
                      index == 0 ? Expect::kSuccess : Expect::kRefusal, {EINVAL});
  const int found = ibv_get_pkey_index(shared_.context, 1, index == 0 ? pkey : 0x1234);
  verdicts_.require("ibv_get_pkey_index", found == (index == 0 ? 0 : -1),
                    "answered " + std::to_string(found));
}

void World::query_clock() {
  ibv_values_ex values{};
  values.comp_mask = below(3);
  verdicts_.number("ibv_query_rt_values_ex", ibv_query_rt_values_ex(shared_.context, &values),
                   Expect::kSuccess, {});
}

// Opens another context of the same device and closes it, with or without its objects.
void World::open_another() {
  ibv_context* context =
      verdicts_.object("ibv_open_device", ibv_open_device(shared_.context->device), Expect::kSuccess, {});
  ibv_pd* pd = verdicts_.object("ibv_alloc_pd", ibv_alloc_pd(context), Expect::kSuccess, {});
  ibv_mr* mr = verdicts_.object("ibv_reg_mr", ibv_reg_mr(pd, arena_, 4096, int{IBV_ACCESS_LOCAL_WRITE}),
                                Expect::kSuccess, {});
  ibv_cq* cq = verdicts_.object("ibv_create_cq", ibv_create_cq(context, 16, nullptr, nullptr, 0),
                                Expect::kSuccess, {});
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = verdicts_.object("ibv_create_qp", ibv_create_qp(pd, &attr), Expect::kSuccess, {});
  // Objects of two contexts cannot be combined.
  ibv_qp_init_attr mixed = attr;
  mixed.recv_cq = shared_.cq;
  errno = 0;
  verdicts_.object("ibv_create_qp", ibv_create_qp(pd, &mixed), Expect::kRefusal, {ENOENT});
  if (chance(50)) {
    verdicts_.number("ibv_destroy_qp", ibv_destroy_qp(qp), Expect::kSuccess, {});
    verdicts_.number("ibv_destroy_cq", ibv_destroy_cq(cq), Expect::kSuccess, {});
    verdicts_.number("ibv_dereg_mr", ibv_dereg_mr(mr), Expect::kSuccess, {});
    verdicts_.number("ibv_dealloc_pd", ibv_dealloc_pd(pd), Expect::kSuccess, {});
  } else {
    leave_behind(context, pd, qp);
  }
  verdicts_.number("ibv_close_device", ibv_close_device(context), Expect::kSuccess, {});
}

// Leaves one object of each kind, a connection in use, and an event that was taken and never acknowledged.
void World::leave_behind(ibv_context* context, ibv_pd* pd, ibv_qp* qp) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) move(qp, state, qp);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;  // to itself, without a receive request
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  verdicts_.number("ibv_post_send", ibv_post_send(qp, &wr, &bad), Expect::kSuccess, {});
  ibv_comp_channel* channel =
      verdicts_.object("ibv_create_comp_channel", ibv_create_comp_channel(context), Expect::kSuccess, {});
  verdicts_.object("ibv_create_cq", ibv_create_cq(context, 16, nullptr, channel, 0), Expect::kSuccess, {});
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = verdicts_.object("ibv_create_srq", ibv_create_srq(pd, &srq_attr), Expect::kSuccess, {});
  srq_attr.attr.srq_limit = 2;  // an empty queue is below the limit: an event
  verdicts_.number("ibv_modify_srq", ibv_modify_srq(srq, &srq_attr.attr, IBV_SRQ_LIMIT), Expect::kSuccess,
                   {});
  verdicts_.require("fcntl", ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0,
                    "the descriptor of events cannot be made non-blocking");
  ibv_async_event event;
  verdicts_.minus_one("ibv_get_async_event", ibv_get_async_event(context, &event), Expect::kEither, {EAGAIN});
  ibv_mw* mw = verdicts_.object("ibv_alloc_mw", ibv_alloc_mw(pd, IBV_MW_TYPE_2), Expect::kSuccess, {});
  verdicts_.require("ibv_alloc_mw", mw->pd == pd, "has another domain than it was made in");
  ibv_parent_domain_init_attr parent{};
  parent.pd = pd;
  verdicts_.object("ibv_alloc_parent_domain", ibv_alloc_parent_domain(context, &parent), Expect::kSuccess,
                   {});
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = 1;
  address.grh.dgid = shared_.gid;
  address.grh.sgid_index = shared_.gid_index;
  verdicts_.object("ibv_create_ah", ibv_create_ah(pd, &address), Expect::kSuccess, {});
}

// Any thread may take an event of another thread's object, and must acknowledge it for that thread to
// continue.
void World::take_async_event() {
  ibv_async_event event;
  const int answer = ibv_get_async_event(shared_.context, &event);
  if (verdicts_.minus_one("ibv_get_async_event", answer, Expect::kEither, {EAGAIN}) == 0)
    ibv_ack_async_event(&event);
}

void World::ask_for_what_is_not_offered() {
  switch (below(5)) {
    case 0: {
      ibv_counters_init_attr attr{};
      verdicts_.object("ibv_create_counters", ibv_create_counters(shared_.context, &attr), Expect::kRefusal,
                       {EOPNOTSUPP});
      return;
    }
    case 1: {
      ibv_wq_init_attr attr{};
      attr.pd = shared_.pd;
      attr.cq = shared_.cq;
      verdicts_.object("ibv_create_wq", ibv_create_wq(shared_.context, &attr), Expect::kRefusal,
                       {EOPNOTSUPP});
      return;
    }
    case 2: {
      ibv_flow_attr attr{};
      if (QpEntry* entry = pick(qps_)) {
        verdicts_.object("ibv_create_flow", ibv_create_flow(entry->qp, &attr), Expect::kRefusal,
                         {EOPNOTSUPP});
      }
      return;
    }
    case 3:
      verdicts_.object("ibv_import_pd", ibv_import_pd(shared_.context, below(10)), Expect::kRefusal,
                       {EOPNOTSUPP});
      return;
    default:
      verdicts_.object("ibv_import_mr", ibv_import_mr(shared_.pd, below(10)), Expect::kRefusal, {EOPNOTSUPP});
      return;
  }
}

}  // namespace spin
