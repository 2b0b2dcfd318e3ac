// The operations that verbs.h reaches through the context, by subject. Each file of this folder defines some;
// operations.cc puts them into the tables.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "base/call_site.h"

namespace rrdma::verbs {

// Domains.
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);

// Memory.
ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int dealloc_mw(ibv_mw* mw);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length, unsigned access);

// Completion queues.
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr);
int next_poll(ibv_cq_ex* cq);

// Queue pairs and shared receive queues.
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);
int srq_number(ibv_srq* srq, std::uint32_t* number);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_send_from(const CallSite& posted, ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int wr_complete(ibv_qp_ex* qp);
int wr_complete_from(const CallSite& posted, ibv_qp_ex* qp);
void wr_abort(ibv_qp_ex* qp);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);

// Counters.
ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr* attr);
int destroy_counters(ibv_counters* counters);
int attach_counters_point_flow(ibv_counters* counters, ibv_counter_attach_attr* attr, ibv_flow* flow);
int read_counters(ibv_counters* counters, std::uint64_t* values, std::uint32_t count, std::uint32_t flags);

// Not available for a NIC inside one process: EOPNOTSUPP.
ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);
ibv_flow_action* create_flow_action_esp(ibv_context* context, ibv_flow_action_esp_attr* attr);
int modify_flow_action_esp(ibv_flow_action* action, ibv_flow_action_esp_attr* attr);
int destroy_flow_action(ibv_flow_action* action);
ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr);
int modify_wq(ibv_wq* wq, ibv_wq_attr* attr);
int destroy_wq(ibv_wq* wq);
ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr);
int destroy_rwq_ind_table(ibv_rwq_ind_table* table);
int post_srq_ops(ibv_srq* srq, ibv_ops_wr* op, ibv_ops_wr** bad);

}  // namespace rrdma::verbs
