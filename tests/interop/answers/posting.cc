// Questions about posting: which state takes a request, and which request a queue refuses.
#include "probe.h"

namespace answers {
namespace {

ibv_send_wr send_of(ibv_sge& sge, std::uint64_t id, ibv_wr_opcode opcode = IBV_WR_SEND) {
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  return wr;
}

void ask_states(const Table& table) {
  struct Case {
    const char* name;
    ibv_qp_state state;
  };
  for (const Case& one :
       {Case{"reset", IBV_QPS_RESET}, {"init", IBV_QPS_INIT}, {"rtr", IBV_QPS_RTR}, {"err", IBV_QPS_ERR}}) {
    ibv_qp* qp = table.create_qp(IBV_QPT_RC);
    table.move(qp, one.state, qp->qp_num);
    ibv_sge sge = table.at(0, 8);
    const int sent = post(qp, send_of(sge, 1));
    const std::string after =
        sent == 0 && one.state == IBV_QPS_ERR ? ", " + table.completion(table.cq, 1) : "";
    tell(std::string("post_send.") + one.name, outcome(sent) + after);
    const int received = receive(qp, 2, sge);
    const std::string later =
        received == 0 && one.state == IBV_QPS_ERR ? ", " + table.completion(table.cq, 2) : "";
    tell(std::string("post_recv.") + one.name, outcome(received) + later);
    ibv_destroy_qp(qp);
  }
}

void ask_bounds(const Table& table) {
  ibv_qp* qp = table.create_qp(IBV_QPT_RC);
  table.move(qp, IBV_QPS_INIT, 0);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_query_qp(qp, &attr, IBV_QP_CAP, &init);
  int error = 0;
  for (unsigned i = 0; i <= init.cap.max_recv_wr && error == 0; ++i) error = receive(qp, i, table.at(0, 8));
  tell("post_recv.an_entry_too_many", outcome(error));
  ibv_destroy_qp(qp);

  ibv_qp* one = table.create_qp(IBV_QPT_RC);
  ibv_qp* other = table.create_qp(IBV_QPT_RC);
  table.connect(one, other);
  ibv_sge many[64];
  for (ibv_sge& sge : many) sge = table.at(0, 8);
  ibv_send_wr wr = send_of(many[0], 1);
  wr.num_sge = 64;
  tell("post_send.sges_beyond_the_device", outcome(post(one, wr)));
  wr = send_of(many[0], 2);
  wr.num_sge = -1;
  tell("post_send.sges_negative", outcome(post(one, wr)));
  ibv_sge large = table.at(0, 4096);
  wr = send_of(large, 3);
  wr.send_flags |= IBV_SEND_INLINE;
  tell("post_send.inline_beyond_the_device", outcome(post(one, wr)));
  ibv_destroy_qp(one);
  ibv_destroy_qp(other);

  one = table.create_qp(IBV_QPT_RC, nullptr, 0);
  other = table.create_qp(IBV_QPT_RC, nullptr, 0);
  table.connect(one, other);
  receive(other, 9, table.at(64, 64));
  ibv_sge small = table.at(0, 16);
  wr = send_of(small, 4);
  wr.send_flags |= IBV_SEND_INLINE;
  tell("post_send.inline_not_asked_for", posted(table, one, wr));
  // An operation that no QP of these devices has.
  wr = send_of(small, 5, IBV_WR_TSO);
  wr.tso = {.hdr = nullptr, .hdr_sz = 0, .mss = 0};
  const std::string answer = posted(table, one, wr);
  tell("post_send.tso", answer + ", QP " + state_of(one));
  ibv_destroy_qp(one);
  ibv_destroy_qp(other);
}

void ask_datagrams(const Table& table) {
  ibv_port_attr port{};
  ibv_query_port(table.context, 1, &port);
  ibv_qp* qp = table.create_qp(IBV_QPT_UD);
  table.move(qp, IBV_QPS_RTS, 0);
  ibv_sge sge = table.at(0, (128u << port.active_mtu) + 1);
  ibv_send_wr wr = send_of(sge, 1);
  wr.wr.ud = {.ah = table.create_ah(), .remote_qpn = qp->qp_num, .remote_qkey = 0x1234};
  tell("ud.longer_than_the_mtu", posted(table, qp, wr));
  ibv_destroy_qp(qp);
}

void ask_atomics(const Table& table) {
  struct Case {
    const char* name;
    std::uint32_t length;
    std::size_t offset;
  };
  for (const Case& one : {Case{"short_list", 4, 64}, {"long_list", 16, 64}, {"unaligned_address", 8, 65}}) {
    ibv_qp* from = table.create_qp(IBV_QPT_RC);
    ibv_qp* to = table.create_qp(IBV_QPT_RC);
    table.connect(from, to);
    ibv_sge sge = table.at(0, one.length);
    ibv_send_wr wr = send_of(sge, 1, IBV_WR_ATOMIC_FETCH_AND_ADD);
    wr.wr.atomic = {
        .remote_addr = table.address(one.offset), .compare_add = 1, .swap = 0, .rkey = table.mr->rkey};
    tell(std::string("atomic.") + one.name, posted(table, from, wr));
    ibv_destroy_qp(from);
    ibv_destroy_qp(to);
  }
}

}  // namespace

void ask_about_posting(const Table& table) {
  ask_states(table);
  ask_bounds(table);
  ask_datagrams(table);
  ask_atomics(table);
  tell("req_notify_cq.without_a_channel", outcome(ibv_req_notify_cq(table.cq, 0)));
}

void ask_about_operations(const Table& table) {
  struct Type {
    const char* name;
    ibv_qp_type type;
  };
  struct Operation {
    const char* name;
    ibv_wr_opcode opcode;
  };
  constexpr Operation kOperations[] = {{"write", IBV_WR_RDMA_WRITE},
                                       {"write_with_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
                                       {"read", IBV_WR_RDMA_READ},
                                       {"compare_and_swap", IBV_WR_ATOMIC_CMP_AND_SWP},
                                       {"fetch_and_add", IBV_WR_ATOMIC_FETCH_AND_ADD},
                                       {"send_with_inv", IBV_WR_SEND_WITH_INV}};
  for (const Type& type : {Type{"ud", IBV_QPT_UD}, {"uc", IBV_QPT_UC}}) {
    for (const Operation& operation : kOperations) {
      const bool is_write =
          operation.opcode == IBV_WR_RDMA_WRITE || operation.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
      if (type.type == IBV_QPT_UC && is_write) continue;
      ibv_qp* qp = table.create_qp(type.type);
      table.move(qp, IBV_QPS_RTS, qp->qp_num);
      ibv_sge sge = table.at(0, 8);
      ibv_send_wr wr = send_of(sge, 1, operation.opcode);
      if (type.type == IBV_QPT_UD) {
        wr.wr.ud = {.ah = table.create_ah(), .remote_qpn = qp->qp_num, .remote_qkey = 0x1234};
      } else if (operation.opcode == IBV_WR_RDMA_READ) {
        wr.wr.rdma = {.remote_addr = table.address(64), .rkey = table.mr->rkey};
      } else {
        wr.wr.atomic = {
            .remote_addr = table.address(64), .compare_add = 1, .swap = 0, .rkey = table.mr->rkey};
      }
      const std::string answer = posted(table, qp, wr);
      tell(std::string(type.name) + "." + operation.name, answer + ", QP " + state_of(qp));
      ibv_destroy_qp(qp);
    }
  }
}

}  // namespace answers
