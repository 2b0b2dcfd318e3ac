// Questions about errors of the two ends of an RC connection: their completions, their states, their events.
#include <poll.h>

#include "probe.h"

namespace answers {
namespace {

// Two connected QPs with a CQ each. `receive_length`: of the receive that is posted at the responder; 0:
// none.
struct Pair {
  Pair(const Table& on, std::uint32_t receive_length, std::uint32_t receive_lkey) : table(on) {
    request_cq = ibv_create_cq(table.context, 16, nullptr, nullptr, 0);
    response_cq = ibv_create_cq(table.context, 16, nullptr, nullptr, 0);
    requester = table.create_qp(IBV_QPT_RC, request_cq);
    responder = table.create_qp(IBV_QPT_RC, response_cq);
    table.connect(requester, responder);
    if (receive_length == 0) return;
    ibv_sge sge = table.at(4096, receive_length);
    sge.lkey = receive_lkey;
    receive(responder, 7, sge);
  }
  ~Pair() {
    ibv_destroy_qp(requester);
    ibv_destroy_qp(responder);
    ibv_destroy_cq(request_cq);
    ibv_destroy_cq(response_cq);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // "requester: success, RTS; responder: none, RTS".
  std::string answer(const ibv_send_wr& wr, bool has_receive) {
    std::string text = "requester: " + posted(table, requester, wr);
    if (has_receive) text += "; responder: " + table.completion(response_cq, 7);
    return text + "; QPs " + state_of(requester) + ", " + state_of(responder);
  }

  const Table& table;
  ibv_cq* request_cq;
  ibv_cq* response_cq;
  ibv_qp* requester;
  ibv_qp* responder;
};

ibv_send_wr request(ibv_sge& sge, ibv_wr_opcode opcode, std::uint64_t remote, std::uint32_t rkey) {
  ibv_send_wr wr{};
  wr.wr_id = 1;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {.remote_addr = remote, .rkey = rkey};
  return wr;
}

// Events that are there already, or come within a moment: "IBV_EVENT_QP_ACCESS_ERR", "none". Skips a change
// of the GID table: a new interface gets its link-local address seconds later.
std::string async_event(const Table& table) {
  pollfd events{.fd = table.context->async_fd, .events = POLLIN, .revents = 0};
  while (poll(&events, 1, 300) == 1) {
    ibv_async_event event{};
    if (ibv_get_async_event(table.context, &event) != 0) return "none";
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    if (type != IBV_EVENT_GID_CHANGE) return ibv_event_type_str(type);
  }
  return "none";
}

void drain_events(const Table& table) {
  while (async_event(table) != "none") continue;
}

void ask_keys(const Table& table) {
  const std::uint32_t bad = table.mr->rkey ^ 0x00ff5500;
  ibv_sge sge = table.at(0, 64);
  struct Case {
    const char* name;
    ibv_wr_opcode opcode;
    std::uint32_t length;
  };
  for (const Case& one : {Case{"write", IBV_WR_RDMA_WRITE, 64},
                          {"read", IBV_WR_RDMA_READ, 64},
                          {"write_with_imm", IBV_WR_RDMA_WRITE_WITH_IMM, 64},
                          {"write.no_bytes", IBV_WR_RDMA_WRITE, 0},
                          {"read.no_bytes", IBV_WR_RDMA_READ, 0}}) {
    drain_events(table);
    const bool with_receive = one.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    std::string answer;
    {
      Pair pair(table, with_receive ? 64 : 0, table.mr->lkey);
      sge.length = one.length;
      ibv_send_wr wr = request(sge, one.opcode, table.address(8192), bad);
      if (one.length == 0) wr.num_sge = 0;
      answer = pair.answer(wr, with_receive);
      answer += "; event " + async_event(table);
    }
    tell(std::string("rkey_refused.") + one.name, answer);
  }
}

void ask_receives(const Table& table) {
  ibv_sge sge = table.at(0, 64);
  const ibv_send_wr send = request(sge, IBV_WR_SEND, 0, 0);
  tell("receive.too_short", Pair(table, 32, table.mr->lkey).answer(send, true));
  tell("receive.lkey_refused", Pair(table, 64, table.mr->lkey ^ 0x00ff5500).answer(send, true));
  tell("receive.none_posted", Pair(table, 0, 0).answer(send, false));
  ibv_send_wr with_inv = request(sge, IBV_WR_SEND_WITH_INV, 0, 0);
  with_inv.invalidate_rkey = table.mr->rkey ^ 0x00ff5500;
  tell("send_with_inv.key_refused", Pair(table, 64, table.mr->lkey).answer(with_inv, true));
  with_inv.invalidate_rkey = table.mr->rkey;
  tell("send_with_inv.key_of_a_user_region", Pair(table, 64, table.mr->lkey).answer(with_inv, true));
  ibv_sge wrong = sge;
  wrong.lkey ^= 0x00ff5500;
  tell("send.lkey_refused", Pair(table, 64, table.mr->lkey).answer(request(wrong, IBV_WR_SEND, 0, 0), false));
}

void ask_silence(const Table& table) {
  ibv_sge sge = table.at(0, 64);
  const ibv_send_wr send = request(sge, IBV_WR_SEND, 0, 0);
  struct Case {
    const char* name;
    ibv_qp_state state;
  };
  for (const Case& one : {Case{"reset", IBV_QPS_RESET}, {"init", IBV_QPS_INIT}, {"err", IBV_QPS_ERR}}) {
    ibv_qp* to = table.create_qp(IBV_QPT_RC);
    ibv_qp* from = table.create_qp(IBV_QPT_RC);
    table.move(to, one.state, from->qp_num);
    table.move(from, IBV_QPS_RTS, to->qp_num);
    tell(std::string("remote_qp.") + one.name, posted(table, from, send));
    ibv_destroy_qp(from);
    ibv_destroy_qp(to);
  }
}

// A responder that is still in RTR serves requests, and tells its program that the other side is there.
void ask_established(const Table& table) {
  drain_events(table);
  ibv_cq* cq = ibv_create_cq(table.context, 16, nullptr, nullptr, 0);
  ibv_qp* to = table.create_qp(IBV_QPT_RC, cq);
  ibv_qp* from = table.create_qp(IBV_QPT_RC);
  table.move(to, IBV_QPS_RTR, from->qp_num);
  table.move(from, IBV_QPS_RTS, to->qp_num);
  receive(to, 7, table.at(4096, 64));
  ibv_sge sge = table.at(0, 64);
  std::string answer = posted(table, from, request(sge, IBV_WR_SEND, 0, 0));
  answer += "; responder: " + table.completion(cq, 7);
  tell("remote_qp.rtr", answer + "; event " + async_event(table));
  ibv_destroy_qp(from);
  ibv_destroy_qp(to);
  ibv_destroy_cq(cq);
}

void ask_overrun(const Table& table) {
  drain_events(table);
  ibv_cq* small = ibv_create_cq(table.context, 1, nullptr, nullptr, 0);
  ibv_qp* qp = table.create_qp(IBV_QPT_RC, small);
  table.move(qp, IBV_QPS_INIT, 0);
  for (std::uint64_t i = 1; i <= 8; ++i) receive(qp, i, table.at(0, 8));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  std::string answer = "event " + async_event(table);
  ibv_wc wc{};
  answer += ibv_poll_cq(small, 1, &wc) == 1 ? "; the first completion is there" : "; no completion";
  tell("cq.overrun", answer);
  ibv_destroy_qp(qp);
  ibv_destroy_cq(small);
}

}  // namespace

void ask_about_errors(const Table& table) {
  ask_keys(table);
  ask_receives(table);
  ask_silence(table);
  ask_established(table);
  ask_overrun(table);
}

}  // namespace answers
