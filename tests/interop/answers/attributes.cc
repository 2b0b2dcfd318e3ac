// Questions about attributes: of the device and its port, and of QPs on their way.
#include <cerrno>

#include "probe.h"

namespace answers {
namespace {

std::string made(const ibv_cq* cq) { return cq != nullptr ? "ok" : name_of_error(errno); }

void ask_port(const Table& table) {
  ibv_port_attr port{};
  tell("query_port.0", outcome(ibv_query_port(table.context, 0, &port)));
  tell("query_port.2", outcome(ibv_query_port(table.context, 2, &port)));
  ibv_query_port(table.context, 1, &port);
  tell("query_port.link_layer", port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "other");
  tell("query_port.lid", std::to_string(port.lid));
  tell("query_port.pkey_tbl_len", std::to_string(port.pkey_tbl_len));
  __be16 pkey = 0;
  const int has_pkey = ibv_query_pkey(table.context, 1, 0, &pkey);
  tell("query_pkey.0", outcome(has_pkey) + ", " + std::to_string(pkey));
  tell("query_pkey.beyond", ibv_query_pkey(table.context, 1, 4096, &pkey) == 0 ? "ok" : "fails");
  ibv_gid gid{};
  const int last = port.gid_tbl_len - 1;
  const int found = ibv_query_gid(table.context, 1, last, &gid);
  const bool zero = gid.global.interface_id == 0 && gid.global.subnet_prefix == 0;
  tell("query_gid.empty_entry", found == 0 ? (zero ? "ok, zeros" : "ok, not zeros") : "fails");
  tell("query_gid.beyond", ibv_query_gid(table.context, 1, port.gid_tbl_len, &gid) == 0 ? "ok" : "fails");
  tell("get_device_index",
       ibv_get_device_index(table.context->device) < 0 ? "-1" : "of the kernel's netlink");
}

void ask_queues(const Table& table) {
  ibv_device_attr device{};
  ibv_query_device(table.context, &device);
  errno = 0;
  tell("create_cq.0", made(ibv_create_cq(table.context, 0, nullptr, nullptr, 0)));
  tell("create_cq.-1", made(ibv_create_cq(table.context, -1, nullptr, nullptr, 0)));
  tell("create_cq.beyond", made(ibv_create_cq(table.context, device.max_cqe + 1, nullptr, nullptr, 0)));
  tell("create_cq.vector_beyond",
       made(ibv_create_cq(table.context, 8, nullptr, nullptr, table.context->num_comp_vectors)));
  tell("resize_cq.0", outcome(ibv_resize_cq(table.cq, 0)));
  tell("resize_cq.beyond", outcome(ibv_resize_cq(table.cq, device.max_cqe + 1)));
  ibv_cq_init_attr_ex extended{};
  extended.cqe = 8;
  extended.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(table.context, &extended);
  tell("create_cq_ex.wallclock", cq != nullptr ? "ok" : name_of_error(errno));
  struct Case {
    const char* name;
    ibv_qp_cap cap;
  };
  const auto wr = static_cast<std::uint32_t>(device.max_qp_wr),
             sge = static_cast<std::uint32_t>(device.max_sge);
  for (const Case& one : {Case{"send_wr_beyond", {wr + 1, 1, 1, 1, 0}},
                          {"recv_wr_beyond", {1, wr + 1, 1, 1, 0}},
                          {"send_sge_beyond", {1, 1, sge + 1, 1, 0}},
                          {"recv_sge_beyond", {1, 1, 1, sge + 1, 0}},
                          {"inline_beyond", {1, 1, 1, 1, 1 << 20}},
                          {"nothing", {0, 0, 0, 0, 0}}}) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = table.cq;
    init.cap = one.cap;
    init.qp_type = IBV_QPT_RC;
    errno = 0;
    ibv_qp* qp = ibv_create_qp(table.pd, &init);
    tell(std::string("create_qp.") + one.name, qp != nullptr ? "ok" : name_of_error(errno));
    if (qp != nullptr) ibv_destroy_qp(qp);
  }
}

void ask_ways(const Table& table) {
  const auto modify = [&](const char* key, ibv_qp_attr attr, int mask) {
    ibv_qp* qp = table.create_qp(IBV_QPT_RC);
    tell(std::string("modify_qp.") + key, outcome(ibv_modify_qp(qp, &attr, mask)));
    ibv_destroy_qp(qp);
  };
  ibv_qp_attr attr{};
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attr.qp_state = IBV_QPS_RTS;
  attr.port_num = 1;
  modify("reset_to_rts", attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  attr.qp_state = IBV_QPS_INIT;
  modify("an_attribute_missing", attr, kInit & ~IBV_QP_ACCESS_FLAGS);
  modify("an_attribute_too_many", attr, kInit | IBV_QP_QKEY);
  attr.port_num = 2;
  modify("port_2", attr, kInit);
  attr.port_num = 1;
  attr.pkey_index = 4000;
  modify("pkey_index_beyond", attr, kInit);
}

std::string hops_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (const int error = ibv_query_qp(qp, &attr, IBV_QP_AV, &init); error != 0) return name_of_error(error);
  return std::to_string(attr.ah_attr.grh.hop_limit);
}

void ask_paths(const Table& table) {
  for (const int hops : {1, 0, 255}) {
    ibv_qp* qp = table.create_qp(IBV_QPT_RC);
    table.move(qp, IBV_QPS_RTR, qp->qp_num, 14, static_cast<std::uint8_t>(hops));
    tell("hop_limit." + std::to_string(hops), hops_of(qp));
    ibv_destroy_qp(qp);
  }
  ibv_ah_attr attr{};
  attr.port_num = 1;
  errno = 0;
  tell("create_ah.without_a_grh", ibv_create_ah(table.pd, &attr) != nullptr ? "ok" : name_of_error(errno));
  attr.is_global = 1;
  attr.grh.dgid = table.gid;
  attr.grh.sgid_index = 100;
  errno = 0;
  tell("create_ah.sgid_index_empty", ibv_create_ah(table.pd, &attr) != nullptr ? "ok" : name_of_error(errno));
  attr.grh.sgid_index = table.gid_index;
  attr.port_num = 2;
  errno = 0;
  tell("create_ah.port_2", ibv_create_ah(table.pd, &attr) != nullptr ? "ok" : name_of_error(errno));
}

}  // namespace

void ask_about_attributes(const Table& table) {
  ask_port(table);
  ask_queues(table);
  ask_ways(table);
  ask_paths(table);
}

}  // namespace answers
