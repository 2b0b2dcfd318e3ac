// sleeper: a program that posts and then sleeps on its completion channel, which it had armed long before,
// without another call. The NIC must then act by itself: retransmit lost packets, give up in time, and retry
// after an RNR NAK that arrived with the last poll.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "device.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr int kSettleMicroseconds = 100'000;  // until the NIC's own thread sleeps, too
constexpr std::size_t kOctets = 4096;
constexpr std::uint8_t kRnrPause = 25;  // 55 ms: longer than the poll that receives the NAK
constexpr int kNobodys = 4095;          // an errno that no call returns

class Sleeper {
 public:
  explicit Sleeper(Device& device) : device_(device), channel_(ibv_create_comp_channel(device.context())) {
    if (channel_ == nullptr) fail_errno("ibv_create_comp_channel");
    cq_ = device.create_cq(16, channel_);
    mr_ = device.register_memory(map_memory(kOctets), kOctets);
    for (std::size_t i = 0; i < 2; ++i) {
      qps_[i] = device.create_qp(cq_, {});
      addresses_[i] = device.prepare(qps_[i], 100);
    }
  }
  ~Sleeper() {
    for (ibv_qp* qp : qps_) ibv_destroy_qp(qp);
    ibv_dereg_mr(mr_);
    ibv_destroy_cq(cq_);
    ibv_destroy_comp_channel(channel_);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void connect(std::size_t which, const Patience& patience) {
    device_.connect(qps_[which], addresses_[which], addresses_[1 - which], patience);
  }
  void arm_and_settle() {
    if (ibv_req_notify_cq(cq_, 0) != 0) fail("ibv_req_notify_cq");
    ::usleep(kSettleMicroseconds);
  }
  void post_send() {
    ibv_sge sge = memory();
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    errno = kNobodys;
    if (ibv_post_send(qps_[0], &request, &bad) != 0) fail("ibv_post_send");
    if (errno != kNobodys) fail_errno("ibv_post_send succeeded and changed errno");
  }
  void post_receive() {
    ibv_sge sge = memory();
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &sge;
    request.num_sge = 1;
    if (ibv_post_recv(qps_[1], &request, &bad) != 0) fail("ibv_post_recv");
  }
  void poll_in_vain(double seconds) {
    ibv_wc completion;
    for (const double begin = monotonic_seconds(); monotonic_seconds() < begin + seconds;) {
      if (ibv_poll_cq(cq_, 1, &completion) != 0) fail("too early: " + describe(completion));
    }
  }
  // Waits for one completion, announced by the channel.
  ibv_wc sleep_until_one(int milliseconds) {
    pollfd descriptor{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&descriptor, 1, milliseconds) != 1)
      fail("nothing came for " + std::to_string(milliseconds) + " ms");
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &context) != 0) fail("ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    ibv_wc completion;
    if (ibv_poll_cq(cq_, 1, &completion) != 1) fail("an event without a completion");
    return completion;
  }

 private:
  [[nodiscard]] ibv_sge memory() const {
    return {.addr = reinterpret_cast<std::uintptr_t>(mr_->addr), .length = kOctets, .lkey = mr_->lkey};
  }

  Device& device_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  ibv_mr* mr_;
  std::array<ibv_qp*, 2> qps_;
  std::array<QpAddress, 2> addresses_;
};

// The peer cannot receive at all: it drops every packet, and the retries must run out.
void give_up(Device& device) {
  Sleeper sleeper(device);
  sleeper.connect(0, {.timeout = 12, .retries = 2});
  sleeper.arm_and_settle();
  sleeper.post_send();
  const ibv_wc completion = sleeper.sleep_until_one(10'000);
  if (completion.status != IBV_WC_RETRY_EXC_ERR) fail("not the retries: " + describe(completion));
  say("gave up");
}

void try_again(Device& device) {
  Sleeper sleeper(device);
  sleeper.connect(0, {});
  sleeper.connect(1, {.rnr_timer = kRnrPause});
  sleeper.arm_and_settle();
  sleeper.post_send();
  sleeper.poll_in_vain(0.02);
  sleeper.post_receive();
  const ibv_wc completion = sleeper.sleep_until_one(10'000);
  if (completion.status != IBV_WC_SUCCESS) fail(describe(completion));
  say("tried again");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Device device(arguments);
  arguments.check();
  give_up(device);
  try_again(device);
  return 0;
}
