// many_qps: measures the memory of connected queue pairs. Each of two processes has N QPs (queues of 128, one
// SGE, no inline), connected with those of the other. One message goes through every QP, so that memory taken
// on first use is counted. Each side then prints its resident memory.
//
//   many_qps N        prints `resident_kib NEAR FAR`; with N = 0 no device is opened: the bare program
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "verbs_port.h"

namespace {

using bench::fail;

constexpr unsigned kSecondsMax = 60;
constexpr std::uint32_t kDepth = 128;
constexpr std::size_t kPageOctets = 4096;
constexpr std::uint32_t kMessageOctets = 64;

void send_all(int fd, const void* data, std::size_t octets) {
  const auto* next = static_cast<const char*>(data);
  while (octets != 0) {
    const ssize_t done = write(fd, next, octets);
    if (done <= 0) fail("write");
    next += done;
    octets -= static_cast<std::size_t>(done);
  }
}

void receive_all(int fd, void* data, std::size_t octets) {
  auto* next = static_cast<char*>(data);
  while (octets != 0) {
    const ssize_t done = read(fd, next, octets);
    if (done <= 0) fail("read");
    next += done;
    octets -= static_cast<std::size_t>(done);
  }
}

void meet(int fd) {
  char token = 0;
  send_all(fd, &token, 1);
  receive_all(fd, &token, 1);
}

long resident_kib() {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) fail("/proc/self/status");
  char line[256];
  long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  }
  std::fclose(file);
  return kib;
}

class Side {
 public:
  Side(int fd, std::size_t count) : fd_(fd) {
    open();
    cq_ = ibv_create_cq(port_.context, static_cast<int>(2 * count), nullptr, nullptr, 0);
    if (cq_ == nullptr) fail("ibv_create_cq");
    for (std::size_t i = 0; i < count; ++i) qps_.push_back(create());
    connect();
    meet(fd_);
  }

  // One message in each direction through every QP.
  void exchange() {
    for (ibv_qp* qp : qps_) receive(qp);
    meet(fd_);
    for (ibv_qp* qp : qps_) {
      send(qp);
      poll();
    }
    while (completed_ < 2 * qps_.size()) poll();
    meet(fd_);
  }

 private:
  void open() {
    port_ = bench::open_port();
    pd_ = ibv_alloc_pd(port_.context);
    memory_ = mmap(nullptr, kPageOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int rights = IBV_ACCESS_LOCAL_WRITE;  // an int: the macro mixes two enumerations
    mr_ = ibv_reg_mr(pd_, memory_, kPageOctets, rights);
    if (mr_ == nullptr) fail("ibv_reg_mr");
  }

  ibv_qp* create() {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.cap.max_send_wr = wanted.cap.max_recv_wr = kDepth;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.qp_type = IBV_QPT_RC;
    ibv_qp* const qp = ibv_create_qp(pd_, &wanted);
    if (qp == nullptr) fail("ibv_create_qp");
    return qp;
  }

  void connect() {
    std::vector<std::uint32_t> own, peers(qps_.size());
    for (const ibv_qp* qp : qps_) own.push_back(qp->qp_num);
    send_all(fd_, own.data(), own.size() * sizeof own[0]);
    receive_all(fd_, peers.data(), peers.size() * sizeof peers[0]);
    for (std::size_t i = 0; i < qps_.size(); ++i) bench::connect(port_, qps_[i], peers[i]);
  }

  [[nodiscard]] ibv_sge message() const {
    return {reinterpret_cast<std::uint64_t>(memory_), kMessageOctets, mr_->lkey};
  }

  void receive(ibv_qp* qp) const {
    ibv_sge sge = message();
    ibv_recv_wr wanted{};
    wanted.sg_list = &sge;
    wanted.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(qp, &wanted, &bad) != 0) fail("ibv_post_recv");
  }

  void send(ibv_qp* qp) const {
    ibv_sge sge = message();
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &request, &bad) != 0) fail("ibv_post_send");
  }

  void poll() {
    ibv_wc completions[16];
    const int count = ibv_poll_cq(cq_, 16, completions);
    for (int i = 0; i < count; ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) {
        std::fprintf(stderr, "many_qps: %s\n", ibv_wc_status_str(completions[i].status));
        std::exit(1);
      }
      ++completed_;
    }
  }

  int fd_;
  bench::Port port_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  void* memory_ = nullptr;
  std::vector<ibv_qp*> qps_;
  std::size_t completed_ = 0;
};

long weigh(int fd, std::size_t count) {
  if (count == 0) return resident_kib();
  Side side(fd, count);
  side.exchange();
  const long kib = resident_kib();
  meet(fd);
  return kib;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  alarm(kSecondsMax);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const long far = weigh(ends[1], count);
    send_all(ends[1], &far, sizeof far);
    _exit(0);
  }
  const long near = weigh(ends[0], count);
  long far = 0;
  receive_all(ends[0], &far, sizeof far);
  waitpid(child, nullptr, 0);
  std::printf("resident_kib %ld %ld\n", near, far);
  return 0;
}
