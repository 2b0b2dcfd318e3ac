// Sends datagrams with equal contents from one queue pair of a device to another, a few at a time, and
// reports how many arrived. Then waits for the end of standard input, so that its counters can be read. Plain
// libibverbs. Arguments: the device, the number of datagrams. Output: "sent N received N".
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device.h"

namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kQKey = 0x1234;
constexpr std::uint32_t kOctets = 1000;
constexpr std::uint32_t kGrhOctets = 40;
constexpr int kTurn = 16;      // datagrams at a time
constexpr int kReceives = 64;  // including duplicates
constexpr auto kStragglers = std::chrono::milliseconds(20);

class Exchange {
 public:
  explicit Exchange(const char* device)
      : context_(open_device(device)),
        pd_(must(ibv_alloc_pd(context_), "ibv_alloc_pd")),
        sent_(must(ibv_create_cq(context_, 2 * kTurn, nullptr, nullptr, 0), "ibv_create_cq")),
        received_(must(ibv_create_cq(context_, 2 * kReceives, nullptr, nullptr, 0), "ibv_create_cq")),
        memory_(kOctets + kOctets + kGrhOctets, 0x5a),
        mr_(must(ibv_reg_mr(pd_, memory_.data(), memory_.size(), int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr")),
        sender_(make_qp()),
        receiver_(make_qp()) {
    ibv_ah_attr to{};
    to.is_global = 1;
    to.port_num = kPort;
    to.grh.hop_limit = 64;
    must(ibv_query_gid(context_, kPort, 0, &to.grh.dgid), "ibv_query_gid");
    ah_ = must(ibv_create_ah(pd_, &to), "ibv_create_ah");
    for (int i = 0; i < kReceives; ++i) post_receive();
  }

  // Returns the number of received datagrams.
  std::uint64_t send(std::uint64_t count) {
    std::uint64_t arrived = 0;
    for (std::uint64_t sent = 0; sent < count;) {
      const int turn = static_cast<int>(std::min<std::uint64_t>(kTurn, count - sent));
      for (int i = 0; i < turn; ++i) post_send();
      for (int done = 0; done < turn;) {
        done += take(sent_);
        arrived += take_received();
      }
      sent += static_cast<std::uint64_t>(turn);
    }
    for (auto last = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() - last < kStragglers;) {
      const std::uint64_t more = take_received();
      arrived += more;
      if (more != 0) last = std::chrono::steady_clock::now();
    }
    return arrived;
  }

 private:
  ibv_qp* make_qp() {
    ibv_qp_init_attr form{};
    form.send_cq = sent_;
    form.recv_cq = received_;
    form.qp_type = IBV_QPT_UD;
    form.sq_sig_all = 1;
    form.cap = {.max_send_wr = kTurn,
                .max_recv_wr = kReceives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    ibv_qp* qp = must(ibv_create_qp(pd_, &form), "ibv_create_qp");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.qkey = kQKey;
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "to INIT");
    attr.qp_state = IBV_QPS_RTR;
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    return qp;
  }

  void post_receive() {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(memory_.data()) + kOctets, kOctets + kGrhOctets, mr_->lkey};
    ibv_recv_wr wr{.wr_id = 0, .next = nullptr, .sg_list = &piece, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    must(ibv_post_recv(receiver_, &wr, &bad), "ibv_post_recv");
  }

  void post_send() {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(memory_.data()), kOctets, mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah_;
    wr.wr.ud.remote_qpn = receiver_->qp_num;
    wr.wr.ud.remote_qkey = kQKey;
    ibv_send_wr* bad = nullptr;
    must(ibv_post_send(sender_, &wr, &bad), "ibv_post_send");
  }

  static int take(ibv_cq* cq) {
    ibv_wc wc[kTurn];
    const int count = ibv_poll_cq(cq, kTurn, wc);
    for (int i = 0; i < count; ++i) {
      if (wc[i].status == IBV_WC_SUCCESS) continue;
      std::fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status));
      std::exit(1);
    }
    return count;
  }

  std::uint64_t take_received() {
    const int count = take(received_);
    for (int i = 0; i < count; ++i) post_receive();
    return static_cast<std::uint64_t>(count);
  }

  ibv_context* context_;
  ibv_pd* pd_;
  ibv_cq* sent_;
  ibv_cq* received_;
  std::vector<std::uint8_t> memory_;  // sent data, and room for received data
  ibv_mr* mr_;
  ibv_qp* sender_;
  ibv_qp* receiver_;
  ibv_ah* ah_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Exchange exchange(argv[1]);
  const auto count = static_cast<std::uint64_t>(std::atoll(argv[2]));
  const std::uint64_t arrived = exchange.send(count);
  std::printf("sent %llu received %llu\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(arrived));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
