// The lower bound: a ping-pong on verbs that works as the library does. One thread, one polled completion
// queue, inline messages of 16 bytes (8 of them in place of the library's header), a completion for one send
// in sixteen, and reposted receives.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "bench/comm/bench.h"

namespace comm_bench {
namespace {

constexpr int kDepth = 64;
constexpr std::uint32_t kMessage = 16;

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

class Bare {
 public:
  void take(rdma_cm_id* id) {
    id_ = id;
    queue_ = ibv_create_cq(id_->verbs, 4 * kDepth, nullptr, nullptr, 0);
    require(queue_ != nullptr, "ibv_create_cq");
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {kDepth, kDepth, 1, 1, kMessage};
    require(rdma_create_qp(id_, nullptr, &attributes) == 0, "rdma_create_qp");
    region_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(), int{IBV_ACCESS_LOCAL_WRITE});
    require(region_ != nullptr, "ibv_reg_mr");
    for (std::uint64_t i = 0; i < kDepth; ++i) post_receive(i);
  }
  void post_receive(std::uint64_t number) {
    ibv_sge part{reinterpret_cast<std::uintptr_t>(memory_.data()) + number * 64, 64, region_->lkey};
    ibv_recv_wr wr{number, nullptr, &part, 1};
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(id_->qp, &wr, &bad) == 0, "ibv_post_recv");
  }
  void send(std::uint64_t value) {
    const std::array<std::uint64_t, 2> octets{0, value};
    ibv_sge part{reinterpret_cast<std::uintptr_t>(octets.data()), kMessage, 0};
    ibv_send_wr wr{};
    wr.wr_id = kDepth;
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE;
    if (++sent_ % 16 == 0) wr.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(id_->qp, &wr, &bad) == 0, "ibv_post_send");
  }
  // Returns false if the peer is gone.
  bool receive() {
    std::array<ibv_wc, 32> completions;
    for (;;) {
      const int count = ibv_poll_cq(queue_, 32, completions.data());
      bool received = false;
      for (int i = 0; i < count; ++i) {
        const ibv_wc& wc = completions[static_cast<std::size_t>(i)];
        if (wc.status != IBV_WC_SUCCESS) return false;
        if ((wc.opcode & IBV_WC_RECV) == 0) continue;
        post_receive(wc.wr_id);
        received = true;
      }
      if (received) return true;
    }
  }

 private:
  rdma_cm_id* id_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::array<std::byte, kDepth * 64> memory_{};
  std::uint64_t sent_ = 0;
};

rdma_addrinfo* look_up(const Arguments& arguments, int flags) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* found = nullptr;
  require(
      rdma_getaddrinfo(arguments.host.c_str(), std::to_string(arguments.port).c_str(), &hints, &found) == 0,
      "rdma_getaddrinfo");
  return found;
}

rdma_conn_param parameters() {
  rdma_conn_param all{};
  all.retry_count = 7;
  all.rnr_retry_count = 7;
  return all;
}

}  // namespace

int bare_serve(const Arguments& arguments) {
  rdma_addrinfo* address = look_up(arguments, RAI_PASSIVE);
  rdma_cm_id* listener = nullptr;
  require(rdma_create_id(nullptr, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  require(rdma_bind_addr(listener, address->ai_src_addr) == 0 && rdma_listen(listener, 1) == 0,
          "rdma_listen");
  say_ready(arguments);
  rdma_cm_id* id = nullptr;
  require(rdma_get_request(listener, &id) == 0, "rdma_get_request");
  Bare bare;
  bare.take(id);
  rdma_conn_param with = parameters();
  require(rdma_accept(id, &with) == 0, "rdma_accept");
  while (bare.receive()) bare.send(1);
  return 0;
}

int bare_latency(const Arguments& arguments) {
  rdma_addrinfo* address = look_up(arguments, 0);
  rdma_cm_id* id = nullptr;
  require(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  require(
      rdma_resolve_addr(id, nullptr, address->ai_dst_addr, 2000) == 0 && rdma_resolve_route(id, 2000) == 0,
      "rdma_resolve_addr");
  Bare bare;
  bare.take(id);
  rdma_conn_param with = parameters();
  require(rdma_connect(id, &with) == 0, "rdma_connect");
  const auto exchange = [&bare](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      bare.send(i);
      require(bare.receive(), "the peer is gone");
    }
  };
  exchange(arguments.count / 10 + 100);
  const Time::time_point begin = Time::now();
  exchange(arguments.count);
  std::printf("latency_ns %.1f\n", nanoseconds_since(begin) / static_cast<double>(2 * arguments.count));
  std::fflush(stdout);
  // Do not call rdma_disconnect, which waits for the peer's answer: the peer polls only its completions.
  return 0;
}

}  // namespace comm_bench
