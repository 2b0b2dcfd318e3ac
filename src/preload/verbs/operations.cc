#include "preload/verbs/operations.h"

#include <cstdint>

#include "preload/verbs/device/context.h"
#include "preload/verbs/device/device_attributes.h"

namespace rrdma::verbs {
namespace {

int compat_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, link_layer) + 1);
}

}  // namespace

void fill_operations(verbs_context& context) {
  context.sz = sizeof context;
  ibv_context& basic = context.context;
  basic.abi_compat = reinterpret_cast<void*>(UINTPTR_MAX);  // marks that a verbs_context encloses it
  ibv_context_ops& ops = basic.ops;
  ops._compat_query_device = query_device;
  ops._compat_query_port = compat_query_port;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;

  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.advise_mr = advise_mr;
  context.alloc_null_mr = alloc_null_mr;
  context.alloc_dm = alloc_dm;
  context.free_dm = free_dm;
  context.reg_dm_mr = reg_dm_mr;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
  context.create_cq_ex = create_cq_ex;
  context.modify_cq = modify_cq;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = srq_number;
  context.create_qp_ex = create_qp_ex;
  context.open_qp = open_qp;
  context.modify_qp_rate_limit = modify_qp_rate_limit;
  context.create_counters = create_counters;
  context.destroy_counters = destroy_counters;
  context.attach_counters_point_flow = attach_counters_point_flow;
  context.read_counters = read_counters;

  context.ibv_create_flow = create_flow;
  context.ibv_destroy_flow = destroy_flow;
  context.create_flow_action_esp = create_flow_action_esp;
  context.modify_flow_action_esp = modify_flow_action_esp;
  context.destroy_flow_action = destroy_flow_action;
  context.create_wq = create_wq;
  context.modify_wq = modify_wq;
  context.destroy_wq = destroy_wq;
  context.create_rwq_ind_table = create_rwq_ind_table;
  context.destroy_rwq_ind_table = destroy_rwq_ind_table;
  context.post_srq_ops = post_srq_ops;
}

}  // namespace rrdma::verbs
