// verbs_rates: two rates that no other program measures.
//
//   verbs_rates threads N SECONDS   8-byte SENDs per second of N threads of one process, each with its own QP
//                                   pair, completion queues and memory, and 64 messages in flight; prints
//                                   `messages RATE`
//   verbs_rates qps SECONDS         QPs per second that one thread creates, brings to RTS and destroys;
//                                   prints `qps RATE`
#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "verbs_port.h"

namespace {

using bench::fail;
using bench::Port;

constexpr std::uint32_t kUnderWay = 64;
constexpr std::uint32_t kMessageOctets = 8;
constexpr int kPolledAtOnce = 16;
constexpr unsigned kThreadsMax = 256;

ibv_qp* create(ibv_pd* pd, ibv_cq* sends, ibv_cq* receives) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = sends;
  wanted.recv_cq = receives;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 2 * kUnderWay;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &wanted);
  if (qp == nullptr) fail("ibv_create_qp");
  return qp;
}

// The resources of one thread: two QPs connected with each other.
class Pair {
 public:
  explicit Pair(const Port& port) : memory_(2 * kMessageOctets) {
    ibv_pd* const pd = ibv_alloc_pd(port.context);
    const int rights = IBV_ACCESS_LOCAL_WRITE;  // an int: the macro mixes two enumerations
    mr_ = ibv_reg_mr(pd, memory_.data(), memory_.size(), rights);
    if (mr_ == nullptr) fail("ibv_reg_mr");
    sends_ = ibv_create_cq(port.context, 4 * kUnderWay, nullptr, nullptr, 0);
    receives_ = ibv_create_cq(port.context, 4 * kUnderWay, nullptr, nullptr, 0);
    if (sends_ == nullptr || receives_ == nullptr) fail("ibv_create_cq");
    from_ = create(pd, sends_, receives_);
    to_ = create(pd, sends_, receives_);
    bench::connect(port, from_, to_->qp_num);
    bench::connect(port, to_, from_->qp_num);
    for (std::uint32_t i = 0; i < 2 * kUnderWay; ++i) post_receive();
  }

  std::uint64_t run(const std::atomic<bool>& stop) {
    std::uint64_t received = 0;
    for (std::uint32_t under_way = 0; !stop.load(std::memory_order_relaxed);) {
      for (; under_way < kUnderWay; ++under_way) post_send();
      under_way -= poll(sends_);
      const std::uint32_t arrived = poll(receives_);
      for (std::uint32_t i = 0; i < arrived; ++i) post_receive();
      received += arrived;
    }
    return received;
  }

 private:
  static std::uint32_t poll(ibv_cq* cq) {
    ibv_wc done[kPolledAtOnce];
    const int count = ibv_poll_cq(cq, kPolledAtOnce, done);
    if (count < 0) fail("ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      if (done[i].status == IBV_WC_SUCCESS) continue;
      std::fprintf(stderr, "status %d\n", static_cast<int>(done[i].status));
      std::exit(1);
    }
    return static_cast<std::uint32_t>(count);
  }
  [[nodiscard]] ibv_sge part(std::size_t offset) const {
    return {reinterpret_cast<std::uint64_t>(memory_.data() + offset), kMessageOctets, mr_->lkey};
  }
  void post_receive() const {
    ibv_sge sge = part(kMessageOctets);
    ibv_recv_wr wanted{};
    wanted.sg_list = &sge;
    wanted.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(to_, &wanted, &bad) != 0) fail("ibv_post_recv");
  }
  void post_send() const {
    ibv_sge sge = part(0);
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(from_, &request, &bad) != 0) fail("ibv_post_send");
  }

  std::vector<std::uint8_t> memory_;
  ibv_mr* mr_ = nullptr;
  ibv_cq *sends_ = nullptr, *receives_ = nullptr;
  ibv_qp *from_ = nullptr, *to_ = nullptr;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void measure_threads(unsigned count, double seconds) {
  const Port port = bench::open_port();
  std::vector<std::unique_ptr<Pair>> pairs;
  for (unsigned i = 0; i < count; ++i) pairs.push_back(std::make_unique<Pair>(port));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> received{0};
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (const auto& pair : pairs) threads.emplace_back([&, one = pair.get()] { received += one->run(stop); });
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("messages %.0f\n", static_cast<double>(received.load()) / seconds_since(begin));
}

void measure_qps(double seconds) {
  const Port port = bench::open_port();
  ibv_pd* const pd = ibv_alloc_pd(port.context);
  ibv_cq* const cq = ibv_create_cq(port.context, 16, nullptr, nullptr, 0);
  if (pd == nullptr || cq == nullptr) fail("ibv_create_cq");
  ibv_qp* const peer = create(pd, cq, cq);
  const auto begin = Clock::now();
  std::uint64_t made = 0;
  while (seconds_since(begin) < seconds) {
    ibv_qp* const qp = create(pd, cq, cq);
    bench::connect(port, qp, peer->qp_num);
    if (ibv_destroy_qp(qp) != 0) fail("ibv_destroy_qp");
    ++made;
  }
  std::printf("qps %.0f\n", static_cast<double>(made) / seconds_since(begin));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "threads" && argc == 4) {
    const unsigned long count = std::strtoul(argv[2], nullptr, 10);
    if (count >= 1 && count <= kThreadsMax) {
      measure_threads(static_cast<unsigned>(count), std::atof(argv[3]));
      return 0;
    }
  } else if (what == "qps" && argc == 3) {
    measure_qps(std::atof(argv[2]));
    return 0;
  }
  std::fputs("usage: verbs_rates threads N SECONDS | verbs_rates qps SECONDS (1 to 256 threads)\n", stderr);
  return 2;
}
