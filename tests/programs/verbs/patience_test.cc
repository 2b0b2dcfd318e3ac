// How long an initiator waits for a peer that never answers: (retry_cnt + 1) times the timeout, and at most
// 1.3 times that, for every operation, on every link, in whichever process the silent queue pair is.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <vector>

#include "bench.h"

namespace letter::patience_test {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::array kOperations = {
    IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE,          IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
constexpr int kTries = 5;  // other processes may occupy the processors

Milliseconds patience_of(const Patience& patience) {
  return std::chrono::duration<double, std::nano>((patience.retries + 1) *
                                                  (4096.0 * (1u << patience.timeout)));
}

// A process with a queue pair that stays in RESET, for the lifetime of this object.
class SilentProcess {
 public:
  SilentProcess() {
    int told[2] = {}, kept[2] = {};
    if (pipe(told) != 0 || pipe(kept) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(kept[1]);
      live(told[1], kept[0]);
    }
    close(told[1]);
    close(kept[0]);
    if (read(told[0], &qpn_, sizeof qpn_) != sizeof qpn_) qpn_ = 0;
    close(told[0]);
    end_ = kept[1];
  }
  ~SilentProcess() {
    close(end_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  SilentProcess(const SilentProcess&) = delete;
  SilentProcess& operator=(const SilentProcess&) = delete;

  [[nodiscard]] std::uint32_t qpn() const { return qpn_; }

 private:
  [[noreturn]] static void live(int told, int kept) {
    ibv_context* context = open_device();
    ibv_cq* cq = context != nullptr ? ibv_create_cq(context, 16, nullptr, nullptr, 0) : nullptr;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    init.qp_type = IBV_QPT_RC;
    const ibv_qp* qp = cq != nullptr ? ibv_create_qp(ibv_alloc_pd(context), &init) : nullptr;
    const std::uint32_t qpn = qp != nullptr ? qp->qp_num : 0;
    char end = 0;
    if (write(told, &qpn, sizeof qpn) == sizeof qpn) static_cast<void>(!read(kept, &end, 1));
    _exit(0);
  }

  pid_t pid_ = -1;
  int end_ = -1;
  std::uint32_t qpn_ = 0;
};

class Silence : public Bench {
 protected:
  int post(ibv_qp* qp, ibv_wr_opcode operation) {
    ibv_send_wr wr{};
    wr.wr_id = operation;
    wr.opcode = operation;
    const bool atomic = operation == IBV_WR_ATOMIC_CMP_AND_SWP || operation == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (atomic) {
      wr.wr.atomic.remote_addr = address(4096);
      wr.wr.atomic.rkey = mr_->rkey;
    } else {
      wr.wr.rdma.remote_addr = address(4096);
      wr.wr.rdma.rkey = mr_->rkey;
    }
    return send(qp, wr, at(0, atomic ? 8 : 3000));
  }

  // Posts every operation at once, each on its own queue pair. Returns how long each took, relative to the
  // expected time.
  std::map<int, double> ratios(const std::vector<ibv_qp*>& qps, const Patience& patience) {
    std::map<int, double> found;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < qps.size(); ++i) EXPECT_EQ(post(qps[i], kOperations[i]), 0);
    for (std::size_t i = 0; i < qps.size(); ++i) {
      const ibv_wc wc = next();
      EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
      found[static_cast<int>(wc.wr_id)] = Milliseconds(Clock::now() - begin) / patience_of(patience);
    }
    return found;
  }

  static void expect_in_time(const std::vector<std::map<int, double>>& tries) {
    std::map<int, double> best;
    for (const auto& one : tries) {
      for (const auto& [operation, ratio] : one) {
        EXPECT_GE(ratio, 0.99) << "too early: operation " << operation;
        best[operation] = best.count(operation) != 0 ? std::min(best[operation], ratio) : ratio;
      }
    }
    EXPECT_EQ(best.size(), kOperations.size());
    for (const auto& [operation, ratio] : best) EXPECT_LE(ratio, 1.3) << "operation " << operation;
  }
};

TEST_F(Silence, OfAQueuePairOfTheSameProcess) {
  for (const Patience patience :
       {Patience{.timeout = 12, .retries = 3}, Patience{.timeout = 15, .retries = 0}}) {
    std::vector<std::map<int, double>> tries;
    for (int i = 0; i < kTries; ++i) {
      std::vector<ibv_qp*> qps;
      for (std::size_t j = 0; j < kOperations.size(); ++j) {
        ibv_qp* other = create_qp(pd_);
        qps.push_back(create_qp(pd_));
        connect(qps.back(), other, patience);
        ibv_qp_attr reset{};
        reset.qp_state = IBV_QPS_RESET;
        ASSERT_EQ(ibv_modify_qp(other, &reset, IBV_QP_STATE), 0);
      }
      tries.push_back(ratios(qps, patience));
    }
    expect_in_time(tries);
  }
}

TEST_F(Silence, OfAQueuePairOfAnotherProcess) {
  const SilentProcess other;
  ASSERT_NE(other.qpn(), 0u);
  const Patience patience{.timeout = 12, .retries = 3};
  std::vector<std::map<int, double>> tries;
  for (int i = 0; i < kTries; ++i) {
    std::vector<ibv_qp*> qps;
    for (std::size_t j = 0; j < kOperations.size(); ++j) {
      qps.push_back(create_qp(pd_));
      connect_to(qps.back(), other.qpn(), patience);
    }
    tries.push_back(ratios(qps, patience));
  }
  expect_in_time(tries);
}

}  // namespace letter::patience_test
