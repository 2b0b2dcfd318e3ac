// Operations that a software NIC inside one process does not have. Each returns EOPNOTSUPP with an
// explanation; the device's attributes advertise none.
#include <infiniband/verbs.h>

#include "host/explain.h"
#include "preload/verbs/operations.h"

namespace rrdma::verbs {
namespace {

constexpr const char* kFlow = "flow steering needs raw Ethernet frames, which this device does not carry.";
constexpr const char* kRss =
    "receive work queues and RSS belong to raw Ethernet QPs, which this device does not have.";
constexpr const char* kTags = "tag matching is not offered (tm_caps of ibv_query_device_ex is zero).";
constexpr const char* kCounters =
    "counters are attached to flows, which this device does not have; `rrdma stat` shows its own.";

int refuse(const char* call, const char* why) { return host::fail(EOPNOTSUPP, call, why); }

}  // namespace

ibv_flow* create_flow(ibv_qp*, ibv_flow_attr*) {
  refuse("ibv_create_flow", kFlow);
  return nullptr;
}
int destroy_flow(ibv_flow*) { return refuse("ibv_destroy_flow", kFlow); }
ibv_flow_action* create_flow_action_esp(ibv_context*, ibv_flow_action_esp_attr*) {
  refuse("ibv_create_flow_action_esp", kFlow);
  return nullptr;
}
int modify_flow_action_esp(ibv_flow_action*, ibv_flow_action_esp_attr*) {
  return refuse("ibv_modify_flow_action_esp", kFlow);
}
int destroy_flow_action(ibv_flow_action*) { return refuse("ibv_destroy_flow_action", kFlow); }

ibv_wq* create_wq(ibv_context*, ibv_wq_init_attr*) {
  refuse("ibv_create_wq", kRss);
  return nullptr;
}
int modify_wq(ibv_wq*, ibv_wq_attr*) { return refuse("ibv_modify_wq", kRss); }
int destroy_wq(ibv_wq*) { return refuse("ibv_destroy_wq", kRss); }
ibv_rwq_ind_table* create_rwq_ind_table(ibv_context*, ibv_rwq_ind_table_init_attr*) {
  refuse("ibv_create_rwq_ind_table", kRss);
  return nullptr;
}
int destroy_rwq_ind_table(ibv_rwq_ind_table*) { return refuse("ibv_destroy_rwq_ind_table", kRss); }

int post_srq_ops(ibv_srq*, ibv_ops_wr* op, ibv_ops_wr** bad) {
  *bad = op;
  return refuse("ibv_post_srq_ops", kTags);
}

ibv_counters* create_counters(ibv_context*, ibv_counters_init_attr*) {
  refuse("ibv_create_counters", kCounters);
  return nullptr;
}
int destroy_counters(ibv_counters*) { return refuse("ibv_destroy_counters", kCounters); }
int attach_counters_point_flow(ibv_counters*, ibv_counter_attach_attr*, ibv_flow*) {
  return refuse("ibv_attach_counters_point_flow", kCounters);
}
int read_counters(ibv_counters*, std::uint64_t*, std::uint32_t, std::uint32_t) {
  return refuse("ibv_read_counters", kCounters);
}

ibv_qp* open_qp(ibv_context*, ibv_qp_open_attr*) {
  refuse("ibv_open_qp", "a QP cannot be shared between processes here; create one in each.");
  return nullptr;
}
int modify_qp_rate_limit(ibv_qp*, ibv_qp_rate_limit_attr*) {
  return refuse("ibv_modify_qp_rate_limit",
                "packet pacing is not offered (packet_pacing_caps of ibv_query_device_ex is zero).");
}

}  // namespace rrdma::verbs
