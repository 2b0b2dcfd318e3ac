// A queue pair connected to itself. Prints asynchronous events as they arrive and answers commands. Plain
// libibverbs. Argument: the device. Output: "ready QPN", then the lines below. The end of the input ends the
// program.
//
//   connect      again, from RESET        "connected"
//   write N      of N bytes               "write STATUS MILLISECONDS"
//   send N       and a receive for it     "send STATUS MILLISECONDS"
//   state                                 "state N"
//   gids                                  "gids ADDRESS..."
//   speed                                 "speed N N" (active_speed, active_width)
//   (an event)                            "event N"
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint8_t kPort = 1;
constexpr std::size_t kOctetsMax = 1 << 20;
constexpr auto kPatience = std::chrono::seconds(30);

class Watched {
 public:
  explicit Watched(const char* device)
      : context_(open_device(device)),
        pd_(must(ibv_alloc_pd(context_), "ibv_alloc_pd")),
        cq_(must(ibv_create_cq(context_, 16, nullptr, nullptr, 0), "ibv_create_cq")),
        memory_(2 * kOctetsMax),
        mr_(must(ibv_reg_mr(pd_, memory_.data(), memory_.size(),
                            int{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_WRITE),
                 "ibv_reg_mr")) {
    ibv_srq_init_attr srq{.srq_context = nullptr, .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
    (void)must(ibv_create_srq(pd_, &srq), "ibv_create_srq");
    ibv_qp_init_attr form{};
    form.send_cq = form.recv_cq = cq_;
    form.qp_type = IBV_QPT_RC;
    form.sq_sig_all = 1;
    form.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    qp_ = must(ibv_create_qp(pd_, &form), "ibv_create_qp");
    must(::fcntl(context_->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
    connect();
    std::printf("ready %u\n", qp_->qp_num);
  }

  [[nodiscard]] int events() const { return context_->async_fd; }
  void tell_events() const {
    ibv_async_event event{};
    while (ibv_get_async_event(context_, &event) == 0) {
      std::printf("event %d\n", event.event_type);
      ibv_ack_async_event(&event);
    }
  }

  void obey(const std::string& line) {
    const std::size_t blank = line.find(' ');
    const std::string command = line.substr(0, blank);
    const auto octets =
        blank == std::string::npos ? 64u : static_cast<std::uint32_t>(std::stoul(line.substr(blank)));
    if (command == "connect") {
      connect();
      std::puts("connected");
    } else if (command == "write" || command == "send") {
      exchange(command, octets);
    } else if (command == "state") {
      ibv_qp_attr attr{};
      ibv_qp_init_attr form{};
      must(ibv_query_qp(qp_, &attr, IBV_QP_STATE, &form), "ibv_query_qp");
      std::printf("state %d\n", attr.qp_state);
    } else if (command == "gids") {
      tell_gids();
    } else if (command == "speed") {
      ibv_port_attr port{};
      must(ibv_query_port(context_, kPort, &port), "ibv_query_port");
      std::printf("speed %d %d\n", port.active_speed, port.active_width);
    }
  }

 private:
  void connect() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    must(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), "to RESET");
    ibv_gid gid{};
    must(ibv_query_gid(context_, kPort, 0, &gid), "ibv_query_gid");
    attr = connection(qp_->qp_num, gid, 0, IBV_ACCESS_REMOTE_WRITE);
    attr.timeout = 12;
    bring_up(qp_, attr);
  }

  void exchange(const std::string& command, std::uint32_t octets) {
    const auto begin = Clock::now();
    const bool sends = command == "send";
    const auto first = reinterpret_cast<std::uint64_t>(memory_.data());
    if (sends) {
      ibv_sge room{first + kOctetsMax, octets, mr_->lkey};
      ibv_recv_wr receive{.wr_id = 0, .next = nullptr, .sg_list = &room, .num_sge = 1};
      ibv_recv_wr* bad = nullptr;
      must(ibv_post_recv(qp_, &receive, &bad), "ibv_post_recv");
    }
    ibv_sge piece{first, octets, mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = first + kOctetsMax;
    wr.wr.rdma.rkey = mr_->rkey;
    ibv_send_wr* bad = nullptr;
    must(ibv_post_send(qp_, &wr, &bad), "ibv_post_send");
    int status = IBV_WC_SUCCESS;
    for (int left = sends ? 2 : 1; left != 0; --left) {
      ibv_wc wc{};
      while (ibv_poll_cq(cq_, 1, &wc) == 0) {
        if (Clock::now() - begin > kPatience) must(ETIMEDOUT, "no completion");
      }
      if (status == IBV_WC_SUCCESS) status = wc.status;
    }
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    std::printf("%s %d %lld\n", command.c_str(), status, static_cast<long long>(took.count()));
  }

  void tell_gids() const {
    std::array<ibv_gid_entry, 64> entries{};
    const ssize_t count = ibv_query_gid_table(context_, entries.data(), entries.size(), 0);
    std::printf("gids");
    for (ssize_t i = 0; i < count; ++i) {
      char text[INET6_ADDRSTRLEN];
      std::printf(" %s",
                  inet_ntop(AF_INET6, entries[static_cast<std::size_t>(i)].gid.raw, text, sizeof text));
    }
    std::puts("");
  }

  ibv_context* context_;
  ibv_pd* pd_;
  ibv_cq* cq_;
  std::vector<std::uint8_t> memory_;  // sent data, and room for received data
  ibv_mr* mr_;
  ibv_qp* qp_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Watched watched(argv[1]);
  std::string typed;
  for (;;) {
    std::array<pollfd, 2> descriptors = {pollfd{0, POLLIN, 0}, pollfd{watched.events(), POLLIN, 0}};
    if (::poll(descriptors.data(), descriptors.size(), -1) < 0) continue;
    if (descriptors[1].revents != 0) watched.tell_events();
    if (descriptors[0].revents == 0) continue;
    char octets[256];
    const ssize_t count = ::read(0, octets, sizeof octets);
    if (count <= 0) return 0;
    typed.append(octets, static_cast<std::size_t>(count));
    for (std::size_t end; (end = typed.find('\n')) != std::string::npos; typed.erase(0, end + 1))
      watched.obey(typed.substr(0, end));
  }
}
