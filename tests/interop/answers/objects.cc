// Questions about objects: those that others still use, and handles that the kernel does not know.
#include <arpa/inet.h>

#include <cerrno>

#include "probe.h"

namespace answers {
namespace {

ibv_srq* create_srq(const Table& table) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  return ibv_create_srq(table.pd, &init);
}

// Destroys an object whose handle the kernel never gave out, and then the object.
template <typename Object>
void ask_handle(const std::string& key, Object* object, int (*destroy)(Object*)) {
  if (object == nullptr) return tell(key, "no such object");
  object->handle ^= 0x00550000;
  tell(key, outcome(destroy(object)));
  object->handle ^= 0x00550000;
  destroy(object);
}

// A call that creates an object must answer with null and errno.
template <typename Object>
std::string made(Object* object) {
  return object != nullptr ? "ok" : name_of_error(errno);
}

ibv_gid group() {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 239;
  gid.raw[13] = 1;
  gid.raw[14] = 2;
  gid.raw[15] = 3;
  return gid;
}

}  // namespace

void ask_about_objects(const Table& table) {
  tell("busy.dealloc_pd_with_an_mr", outcome(ibv_dealloc_pd(table.pd)));
  ibv_comp_channel* channel = ibv_create_comp_channel(table.context);
  ibv_cq* cq = ibv_create_cq(table.context, 8, nullptr, channel, 0);
  tell("busy.destroy_comp_channel_with_a_cq", outcome(ibv_destroy_comp_channel(channel)));
  ibv_qp* qp = table.create_qp(IBV_QPT_UD, cq);
  tell("busy.destroy_cq_with_a_qp", outcome(ibv_destroy_cq(cq)));
  table.move(qp, IBV_QPS_RTS, 0);
  const ibv_gid gid = group();
  tell("attach_mcast", outcome(ibv_attach_mcast(qp, &gid, 0)));
  tell("attach_mcast.twice", outcome(ibv_attach_mcast(qp, &gid, 0)));
  tell("busy.destroy_qp_in_a_group", outcome(ibv_destroy_qp(qp)));
  ibv_detach_mcast(qp, &gid, 0);
  ibv_detach_mcast(qp, &gid, 0);
  tell("detach_mcast.not_attached", outcome(ibv_detach_mcast(qp, &gid, 0)));
  const ibv_gid unicast = table.gid;
  tell("attach_mcast.unicast_gid", outcome(ibv_attach_mcast(qp, &unicast, 0)));
  ibv_srq* srq = create_srq(table);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.srq = srq;
  init.cap = {.max_send_wr = 1, .max_recv_wr = 0, .max_send_sge = 1, .max_recv_sge = 0, .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* user = ibv_create_qp(table.pd, &init);
  tell("busy.destroy_srq_with_a_qp", outcome(ibv_destroy_srq(srq)));
  if (user != nullptr) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    tell("post_recv.to_a_qp_with_an_srq", outcome(ibv_post_recv(user, &wr, &bad)));
    ibv_destroy_qp(user);
  }
}

void ask_about_handles(const Table& table) {
  ask_handle("bad_handle.dealloc_pd", ibv_alloc_pd(table.context), ibv_dealloc_pd);
  ask_handle("bad_handle.dereg_mr", ibv_reg_mr(table.pd, table.memory, 64, int{IBV_ACCESS_LOCAL_WRITE}),
             ibv_dereg_mr);
  ask_handle("bad_handle.destroy_cq", ibv_create_cq(table.context, 8, nullptr, nullptr, 0), ibv_destroy_cq);
  ask_handle("bad_handle.destroy_srq", create_srq(table), ibv_destroy_srq);
  ask_handle("bad_handle.destroy_qp", table.create_qp(IBV_QPT_RC), ibv_destroy_qp);
  ask_handle("bad_handle.destroy_ah", table.create_ah(), ibv_destroy_ah);
  ask_handle("bad_handle.dealloc_mw", ibv_alloc_mw(table.pd, IBV_MW_TYPE_2), ibv_dealloc_mw);

  ibv_qp* qp = table.create_qp(IBV_QPT_UD);
  qp->handle ^= 0x00550000;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  tell("bad_handle.query_qp", outcome(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)));
  attr = {};
  attr.qp_state = IBV_QPS_RESET;
  tell("bad_handle.modify_qp", outcome(ibv_modify_qp(qp, &attr, IBV_QP_STATE)));
  const ibv_gid gid = group();
  tell("bad_handle.attach_mcast", outcome(ibv_attach_mcast(qp, &gid, 0)));
  tell("bad_handle.detach_mcast", outcome(ibv_detach_mcast(qp, &gid, 0)));
  qp->handle ^= 0x00550000;
  table.cq->handle ^= 0x00550000;
  tell("bad_handle.resize_cq", outcome(ibv_resize_cq(table.cq, 128)));
  table.cq->handle ^= 0x00550000;
  ibv_srq* srq = create_srq(table);
  srq->handle ^= 0x00550000;
  ibv_srq_attr limits{};
  tell("bad_handle.query_srq", outcome(ibv_query_srq(srq, &limits)));
  limits.srq_limit = 1;
  tell("bad_handle.modify_srq", outcome(ibv_modify_srq(srq, &limits, IBV_SRQ_LIMIT)));
  srq->handle ^= 0x00550000;
  table.pd->handle ^= 0x00550000;
  tell("bad_handle.reg_mr", made(ibv_reg_mr(table.pd, table.memory, 64, int{IBV_ACCESS_LOCAL_WRITE})));
  tell("bad_handle.create_ah", made(table.create_ah()));
  tell("bad_handle.create_srq", made(create_srq(table)));
  tell("bad_handle.alloc_mw", made(ibv_alloc_mw(table.pd, IBV_MW_TYPE_2)));
  ibv_qp_init_attr create{};
  create.send_cq = create.recv_cq = table.cq;
  create.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  create.qp_type = IBV_QPT_RC;
  tell("bad_handle.create_qp", made(ibv_create_qp(table.pd, &create)));
  table.pd->handle ^= 0x00550000;
}

}  // namespace answers
