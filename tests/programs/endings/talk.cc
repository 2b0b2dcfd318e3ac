#include "talk.h"

#include <arpa/inet.h>
#include <poll.h>

#include <span>
#include <string>

#include "verdict.h"

namespace endings {
namespace {

using proof::fail;
using proof::fail_errno;

constexpr int kResolveMs = 5000;

}  // namespace

Talk::Talk(const Plan& plan) : plan_(plan), cm_(rdma_create_event_channel()) {
  if (cm_ == nullptr) fail_errno("rdma_create_event_channel");
}

Talk::~Talk() {
  over_.store(true);
  if (watcher_.joinable()) watcher_.join();
  for (Line& line : lines_) close_line(line);
  if (events_ != nullptr) ibv_destroy_comp_channel(events_);
  if (listener_ != nullptr) rdma_destroy_id(listener_);
  rdma_destroy_event_channel(cm_);
}

rdma_cm_event* Talk::await(rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  do {
    if (event != nullptr) rdma_ack_cm_event(event);
    if (rdma_get_cm_event(cm_, &event) != 0) fail_errno("rdma_get_cm_event");
  } while (event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
  if (event->event != type)
    fail(std::string("got ") + rdma_event_str(event->event) + " instead of " + rdma_event_str(type));
  return event;
}

void Talk::open_line(Line& line, rdma_cm_id* id, void* memory) {
  line.id = id;
  if (plan_.events && events_ == nullptr) events_ = ibv_create_comp_channel(id->verbs);
  line.cq = ibv_create_cq(id->verbs, 4 * kMessagesMax, &line, events_, 0);
  if (line.cq == nullptr) fail_errno("ibv_create_cq");
  if (events_ != nullptr && ibv_req_notify_cq(line.cq, 0) != 0) fail("ibv_req_notify_cq");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = line.cq;
  attributes.cap = {.max_send_wr = 4,
                    .max_recv_wr = kMessagesMax,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  if (rdma_create_qp(id, nullptr, &attributes) != 0) fail_errno("rdma_create_qp");
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;  // a plain number: clang dislikes enumerations in the macro
  line.outgoing = ibv_reg_mr(id->pd, &line.number, sizeof line.number, kAccess);
  line.incoming = ibv_reg_mr(id->pd, memory, kMessagesMax * sizeof(std::uint64_t), kAccess);
  if (line.outgoing == nullptr || line.incoming == nullptr) fail_errno("ibv_reg_mr");
  for (std::uint64_t i = 0; i < plan_.messages(); ++i) {
    ibv_sge place{.addr = reinterpret_cast<std::uint64_t>(memory) + i * sizeof(std::uint64_t),
                  .length = sizeof(std::uint64_t),
                  .lkey = line.incoming->lkey};
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &place;
    request.num_sge = 1;
    if (ibv_post_recv(id->qp, &request, &bad) != 0) fail("ibv_post_recv");
  }
}

void Talk::close_line(Line& line) {
  if (line.id == nullptr) return;
  if (line.cq != nullptr) {
    rdma_destroy_qp(line.id);
    ibv_dereg_mr(line.outgoing);
    ibv_dereg_mr(line.incoming);
    ibv_destroy_cq(line.cq);
  }
  rdma_destroy_id(line.id);
}

// ---- server ----

std::uint16_t Talk::listen() {
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (rdma_create_id(cm_, &listener_, nullptr, RDMA_PS_TCP) != 0) fail_errno("rdma_create_id");
  if (rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&here)) != 0) fail_errno("rdma_bind_addr");
  if (rdma_listen(listener_, kConnectionsMax) != 0) fail_errno("rdma_listen");
  return ntohs(rdma_get_src_port(listener_));
}

void Talk::accept(Evidence& evidence) {
  for (int i = 0; i < plan_.connections; ++i) {
    const auto place = static_cast<std::size_t>(i);
    rdma_cm_event* call = await(RDMA_CM_EVENT_CONNECT_REQUEST);
    open_line(lines_[place], call->id, evidence.connections[place].received.data());
    rdma_ack_cm_event(call);
    rdma_conn_param parameters{};
    parameters.responder_resources = parameters.initiator_depth = 1;
    parameters.rnr_retry_count = 7;
    if (rdma_accept(lines_[place].id, &parameters) != 0) fail_errno("rdma_accept");
    rdma_ack_cm_event(await(RDMA_CM_EVENT_ESTABLISHED));
  }
}

void Talk::serve(Evidence& evidence) {
  for (;;) {
    int done = 0;
    for (int i = 0; i < plan_.connections; ++i) {
      Line& line = lines_[static_cast<std::size_t>(i)];
      std::atomic<std::uint32_t>& seen = evidence.connections[static_cast<std::size_t>(i)].seen;
      if (line.status != 0) fail("the server: status " + std::to_string(line.status));
      while (seen.load() < line.received) {
        const std::uint32_t number = seen.load() + 1;
        seen.store(number);
        if (number < plan_.messages()) send(line, number);
      }
      done += line.received == plan_.messages() ? 1 : 0;
    }
    if (done == plan_.connections) break;
    progress(nullptr);
  }
  evidence.served.store(1);
}

// ---- client ----

void Talk::connect(std::uint16_t port) {
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  there.sin_port = htons(port);
  for (int i = 0; i < plan_.connections; ++i) {
    Line& line = lines_[static_cast<std::size_t>(i)];
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(cm_, &id, nullptr, RDMA_PS_TCP) != 0) fail_errno("rdma_create_id");
    if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&there), kResolveMs) != 0)
      fail_errno("rdma_resolve_addr");
    rdma_ack_cm_event(await(RDMA_CM_EVENT_ADDR_RESOLVED));
    if (rdma_resolve_route(id, kResolveMs) != 0) fail_errno("rdma_resolve_route");
    rdma_ack_cm_event(await(RDMA_CM_EVENT_ROUTE_RESOLVED));
    open_line(line, id, line.replies.data());
    rdma_conn_param parameters{};
    parameters.responder_resources = parameters.initiator_depth = 1;
    parameters.retry_count = 1;
    parameters.rnr_retry_count = 7;
    if (rdma_connect(id, &parameters) != 0) fail_errno("rdma_connect");
    rdma_ack_cm_event(await(RDMA_CM_EVENT_ESTABLISHED));
  }
  watcher_ = std::thread([this] { follow_disconnects(); });
}

// As most programs do: the QP goes to the error state, and what is outstanding is flushed.
void Talk::follow_disconnects() {
  while (!over_.load()) {
    pollfd ready{.fd = cm_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 1) <= 0) continue;
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(cm_, &event) != 0) fail_errno("rdma_get_cm_event");
    rdma_cm_id* const gone = event->event == RDMA_CM_EVENT_DISCONNECTED ? event->id : nullptr;
    rdma_ack_cm_event(event);
    if (gone != nullptr) (void)rdma_disconnect(gone);
  }
}

// False: the connection is in error.
bool Talk::exchange(Line& line, std::uint64_t number) {
  send(line, number);
  while (line.status == 0 && (line.sent < number || line.received < number)) progress(&line);
  return line.status == 0;
}

Talk::Outcome Talk::send_all() {
  const std::span<Line> lines(lines_.data(), static_cast<std::size_t>(plan_.connections));
  const auto rounds = static_cast<std::uint64_t>(plan_.rounds);
  for (Line& line : lines) {
    for (std::uint64_t i = 1; i <= rounds && exchange(line, i); ++i) continue;
  }
  const double begin = proof::monotonic_seconds();
  for (Line& line : lines) {
    if (line.status == 0) send(line, rounds + 1);
  }
  for (Line& line : lines) {
    while (line.status == 0 && line.sent < rounds + 1) progress(&line);
  }
  Outcome outcome;
  outcome.last_seconds = proof::monotonic_seconds() - begin;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    outcome.acknowledged[i] = lines[i].sent;
    if (outcome.status == 0) outcome.status = lines[i].status;
  }
  return outcome;
}

// ---- both ----

void Talk::send(Line& line, std::uint64_t number) {
  line.number = number;
  ibv_sge place{.addr = reinterpret_cast<std::uint64_t>(&line.number),
                .length = sizeof number,
                .lkey = line.outgoing->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.opcode = IBV_WR_SEND;
  request.sg_list = &place;
  request.num_sge = 1;
  if (ibv_post_send(line.id->qp, &request, &bad) != 0) fail("ibv_post_send");
}

void Talk::take(Line& line, const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    if (line.status == 0) line.status = completion.status;
  } else if (completion.opcode == IBV_WC_RECV) {
    ++line.received;
  } else {
    ++line.sent;
  }
}

void Talk::poll(Line& line) {
  ibv_wc completions[8];
  int count = 0;
  while ((count = ibv_poll_cq(line.cq, 8, completions)) > 0) {
    for (int i = 0; i < count; ++i) take(line, completions[i]);
  }
}

void Talk::poll_all() {
  for (Line& line : lines_) {
    if (line.cq != nullptr) poll(line);
  }
}

void Talk::progress(Line* line) {
  if (events_ == nullptr) return line == nullptr ? poll_all() : poll(*line);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(events_, &cq, &context) != 0) fail_errno("ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
  Line& ready = *static_cast<Line*>(context);
  poll(ready);
  if (ibv_req_notify_cq(cq, 0) != 0) fail("ibv_req_notify_cq");
  poll(ready);
}

}  // namespace endings
