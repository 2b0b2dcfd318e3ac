// Threads with completion queues of their own, which RRDMA keeps apart (one lane for each group of queues).
// The objects that they still share (memory, windows and queues) behave as if there were one NIC.
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench.h"

namespace letter::threads_test {

constexpr int kRounds = 1000;
constexpr int kMessages = 20000;
constexpr std::uint32_t kPart = 256;

class Threads : public Bench {
 protected:
  ibv_cq* create_cq(ibv_comp_channel* channel = nullptr) const {
    return ibv_create_cq(context_, 512, nullptr, channel, 0);
  }
  ibv_qp* create_qp_for(ibv_cq* sends, ibv_cq* receives) const {
    ibv_qp_init_attr init{};
    init.send_cq = sends;
    init.recv_cq = receives;
    init.cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 2, .max_recv_sge = 2};
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    return ibv_create_qp(pd_, &init);
  }
  ibv_send_wr write_to(std::uint64_t remote, std::uint32_t rkey) const {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return wr;
  }
  // The slot of the QP: QPs of two lanes differ in it.
  static std::uint32_t slot_of(const ibv_qp* qp) { return qp->qp_num >> 16; }
};

struct Pair {
  ibv_cq* cq = nullptr;
  ibv_qp *one = nullptr, *other = nullptr;
};

TEST_F(Threads, EachHasItsOwnPair) {
  constexpr int kThreads = 8;
  Pair pairs[kThreads];
  for (Pair& pair : pairs) {
    pair.cq = create_cq();
    pair.one = create_qp_for(pair.cq, pair.cq);
    pair.other = create_qp_for(pair.cq, pair.cq);
    connect(pair.one, pair.other);
    EXPECT_EQ(slot_of(pair.one), slot_of(pair.other));
  }
  EXPECT_NE(slot_of(pairs[0].one), slot_of(pairs[1].one)) << "one lane for all";
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Pair& pair = pairs[t];
      const std::size_t here = static_cast<std::size_t>(t) * 2 * kPart;
      for (int i = 0; i < kRounds && failures == 0; ++i) {
        const auto fill = static_cast<std::uint8_t>(i + t);
        std::memset(memory_ + here, fill, kPart);
        // Message, READ and WRITE in turn; all threads use the same region.
        const int kind = i % 3;
        ibv_send_wr wr = write_to(address(here + kPart), mr_->rkey);
        if (kind == 0) {
          wr.opcode = IBV_WR_SEND;
          if (receive(pair.other, 1, at(here + kPart, kPart)) != 0) ++failures;
        } else if (kind == 1) {
          wr.opcode = IBV_WR_RDMA_READ;
          wr.wr.rdma.remote_addr = address(here);
        }
        if (send(pair.one, wr, at(kind == 1 ? here + kPart : here, kPart)) != 0) ++failures;
        for (int wanted = kind == 0 ? 2 : 1; wanted > 0; --wanted) {
          if (next(pair.cq).status != IBV_WC_SUCCESS) ++failures;
        }
        if (std::memcmp(memory_ + here, memory_ + here + kPart, kPart) != 0) ++failures;
      }
    });
  }
  // Keys are created and destroyed meanwhile.
  std::thread registrar([&] {
    std::vector<std::uint8_t> scrap(4096);
    while (!stop) {
      ibv_mr* const mr = ibv_reg_mr(pd_, scrap.data(), scrap.size(), kAllRights);
      if (mr == nullptr || ibv_dereg_mr(mr) != 0) ++failures;
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  registrar.join();
  EXPECT_EQ(failures, 0);
}

// QPs of several lanes complete into one queue and are connected across lanes: nothing is lost, and each QP
// keeps its order.
TEST_F(Threads, QueuesThatSeveralLanesShare) {
  ibv_cq* const a = create_cq();
  ibv_cq* const b = create_cq();
  ibv_qp* const of_a = create_qp_for(a, a);
  ibv_qp* const of_b = create_qp_for(b, b);
  EXPECT_NE(slot_of(of_a), slot_of(of_b));
  // Both complete their receives into b; one is in the lane of a.
  ibv_qp* const across = create_qp_for(a, b);
  ibv_qp* const home = create_qp_for(b, b);
  EXPECT_EQ(slot_of(across), slot_of(of_a));
  EXPECT_EQ(slot_of(home), slot_of(of_b));
  ibv_qp* const receivers[2] = {across, home};
  ibv_qp* senders[2];
  ibv_cq* sent[2];
  for (int k : {0, 1}) {
    sent[k] = create_cq();
    senders[k] = create_qp_for(sent[k], sent[k]);
    connect(senders[k], receivers[k]);
  }
  std::uint64_t posted[2] = {}, arrived[2] = {};
  for (int i = 0; i < 32; ++i) {
    for (int k : {0, 1}) ASSERT_EQ(receive(receivers[k], posted[k]++, at(0, kPart)), 0);
  }
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int k : {0, 1}) {
    threads.emplace_back([&, k] {
      constexpr int kAhead = 16;
      for (int i = 0; i < kMessages + kAhead; ++i) {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        if (i < kMessages && send(senders[k], wr, at(kPart, 16)) != 0) ++failures;
        if (i >= kAhead && next(sent[k]).status != IBV_WC_SUCCESS) ++failures;
      }
    });
  }
  // Polls the lane of a, whose QP completes into b.
  threads.emplace_back([&] {
    ibv_wc wc;
    while (!done) {
      if (ibv_poll_cq(a, 1, &wc) != 0) ++failures;
    }
  });
  for (int i = 0; i < 2 * kMessages; ++i) {
    const ibv_wc wc = next(b);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << "after " << i;
    if (wc.status != IBV_WC_SUCCESS) break;
    const int k = wc.qp_num == across->qp_num ? 0 : 1;
    EXPECT_EQ(wc.wr_id, arrived[k]++);
    EXPECT_EQ(receive(receivers[k], posted[k]++, at(0, kPart)), 0);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  // A QP is destroyed and its queue stays; its entries are purged, those of the other lane are kept.
  EXPECT_EQ(ibv_destroy_cq(b), EBUSY);
  for (ibv_qp* const qp : {across, home, of_b}) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(b), 0);
}

// Once the program has seen the completion of the bind, no lane places data through the old window any more.
TEST_F(Threads, AWindowIsClosedForEveryLane) {
  ibv_mw* const window = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  ibv_cq* const others = create_cq();
  ibv_qp* const binder = create_qp(pd_);
  ibv_qp* const partner = create_qp(pd_);
  ibv_qp* const writer = create_qp_for(others, others);
  ibv_qp* const target = create_qp_for(others, others);
  connect(binder, partner);
  EXPECT_NE(slot_of(binder), slot_of(target));
  const auto bind = [&](std::uint64_t length) {
    ibv_mw_bind to{};
    to.bind_info = {.mr = mr_,
                    .addr = address(0),
                    .length = length,
                    .mw_access_flags = static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE)};
    ASSERT_EQ(ibv_bind_mw(binder, window, &to), 0);
    ASSERT_EQ(next().status, IBV_WC_SUCCESS);
  };
  for (int round = 0; round < 40; ++round) {
    connect(writer, target);
    bind(4 * kPart);
    const std::uint32_t rkey = window->rkey;
    std::atomic<bool> begun{false};
    std::thread writing([&] {
      ibv_wc wc{};
      for (std::uint8_t i = 0; wc.status == IBV_WC_SUCCESS; ++i) {
        std::memset(memory_ + 4 * kPart, i, 4 * kPart);
        if (send(writer, write_to(address(0), rkey), at(4 * kPart, 4 * kPart)) != 0) break;
        wc = next(others);
        begun = true;
      }
      EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
    });
    while (!begun) std::this_thread::yield();
    bind(0);
    std::uint8_t before[4 * kPart];
    std::memcpy(before, memory_, sizeof before);
    writing.join();
    EXPECT_EQ(std::memcmp(before, memory_, sizeof before), 0) << "round " << round;
    ibv_qp_attr reset{};
    reset.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(writer, &reset, IBV_QP_STATE), 0);
    ASSERT_EQ(ibv_modify_qp(target, &reset, IBV_QP_STATE), 0);
  }
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

// A queue that was armed before it had QPs wakes its waiter for their completions, whichever lane they join.
TEST_F(Threads, AnArmedQueueWakesForQpsThatComeLater) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ibv_cq* const first = create_cq();
  ibv_qp* const busy = create_qp_for(first, first);
  ibv_cq* const waiting = create_cq(channel);
  ASSERT_EQ(ibv_req_notify_cq(waiting, 0), 0);
  ibv_qp* const late = create_qp_for(waiting, waiting);
  connect(busy, late);
  ASSERT_EQ(receive(late, 7, at(0, kPart)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(send(busy, wr, at(kPart, kPart)), 0);
  pollfd ready{.fd = channel->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, 5000), 1);
  ibv_cq* of = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &of, &context), 0);
  EXPECT_EQ(of, waiting);
  ibv_ack_cq_events(of, 1);
  EXPECT_EQ(next(waiting).wr_id, 7u);
}

}  // namespace letter::threads_test
