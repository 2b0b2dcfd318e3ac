// many_qps: what a thousand connected queue pairs weigh. Two processes, each with N QPs (queues of 128, one
// SGE, no inline) that are connected with those of the other; one message goes through every QP, so that what
// is taken when first used is counted. Each side then says its resident memory.
//
//   many_qps N        prints `resident_kib NEAR FAR`; with N = 0 no device is opened: the program's own memory
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
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr unsigned kSecondsMax = 60;
constexpr std::uint32_t kDepth = 128;
constexpr std::uint32_t kFirstPsn = 1;
constexpr std::size_t kPageOctets = 4096;
constexpr std::uint32_t kMessageOctets = 64;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct QpAddress {
  std::uint32_t qpn;
  ibv_gid gid;
};

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

bool is_ipv4(const ibv_gid& gid) {
  static const std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

class Side {
 public:
  Side(int fd, std::size_t count) : fd_(fd) {
    open();
    cq_ = ibv_create_cq(context_, static_cast<int>(2 * count), nullptr, nullptr, 0);
    if (cq_ == nullptr) fail("ibv_create_cq");
    for (std::size_t i = 0; i < count; ++i) qps_.push_back(create());
    connect();
    meet(fd_);
  }

  // One message each way through every QP.
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
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    for (int i = 0; i < count && context_ == nullptr; ++i) {
      if (std::string(ibv_get_device_name(list[i])).compare(0, 5, "rrdma") == 0)
        context_ = ibv_open_device(list[i]);
    }
    if (context_ == nullptr) fail("no device rrdma*");
    ibv_free_device_list(list);
    pd_ = ibv_alloc_pd(context_);
    memory_ = mmap(nullptr, kPageOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int rights = IBV_ACCESS_LOCAL_WRITE;  // a number: the macro mixes two enumerations
    mr_ = ibv_reg_mr(pd_, memory_, kPageOctets, rights);
    if (mr_ == nullptr) fail("ibv_reg_mr");
    for (int index = 0; ibv_query_gid(context_, 1, index, &gid_) == 0; ++index) {
      gid_index_ = static_cast<std::uint8_t>(index);
      if (is_ipv4(gid_)) return;
    }
    fail("no IPv4 GID");
  }

  ibv_qp* create() {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.cap.max_send_wr = wanted.cap.max_recv_wr = kDepth;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.qp_type = IBV_QPT_RC;
    ibv_qp* const qp = ibv_create_qp(pd_, &wanted);
    if (qp == nullptr) fail("ibv_create_qp");
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    if (ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
      fail("INIT");
    return qp;
  }

  void connect() {
    std::vector<QpAddress> own;
    std::vector<QpAddress> peers(qps_.size());
    for (const ibv_qp* qp : qps_) own.push_back({qp->qp_num, gid_});
    send_all(fd_, own.data(), own.size() * sizeof own[0]);
    receive_all(fd_, peers.data(), peers.size() * sizeof peers[0]);
    for (std::size_t i = 0; i < qps_.size(); ++i) connect(qps_[i], peers[i]);
  }

  void connect(ibv_qp* qp, const QpAddress& peer) const {
    ibv_qp_attr ready{};
    ready.qp_state = IBV_QPS_RTR;
    ready.path_mtu = IBV_MTU_4096;
    ready.dest_qp_num = peer.qpn;
    ready.rq_psn = kFirstPsn;
    ready.max_dest_rd_atomic = 1;
    ready.min_rnr_timer = 12;
    ready.ah_attr.is_global = 1;
    ready.ah_attr.port_num = 1;
    ready.ah_attr.grh.dgid = peer.gid;
    ready.ah_attr.grh.sgid_index = gid_index_;
    ready.ah_attr.grh.hop_limit = 1;
    const int for_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (ibv_modify_qp(qp, &ready, for_rtr) != 0) fail("RTR");
    ready.qp_state = IBV_QPS_RTS;
    ready.timeout = 18;
    ready.retry_cnt = 7;
    ready.rnr_retry = 7;
    ready.sq_psn = kFirstPsn;
    ready.max_rd_atomic = 1;
    const int for_rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC;
    if (ibv_modify_qp(qp, &ready, for_rts) != 0) fail("RTS");
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
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  void* memory_ = nullptr;
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
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
