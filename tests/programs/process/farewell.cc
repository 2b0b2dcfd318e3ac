// farewell: a ping-pong, then one message without a reply, because its receiver leaves by --leave: exit
// (destroys nothing), _exit and _Exit (without exit handlers), kill (at once), destroy (destroys its QP
// first), destroy_exit (destroys its QP and exits) or sleep (calls no verb for a while). The sender must get
// its completion: an ACK that the receiver held for a reply is not lost.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "completions.h"
#include "requests.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::uint32_t kOctets = 64;

class End {
 public:
  ~End() {
    ibv_destroy_qp(qp_);
    ibv_dereg_mr(mr_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  End(Device& device, ibv_cq* cq) : cq_(cq), qp_(device.create_qp(cq, {.sends = 4, .receives = 4})) {
    mr_ = device.register_memory(map_memory(4096), 4096);
  }

  [[nodiscard]] ibv_qp* qp() const { return qp_; }
  // REQUIRES: the QP is initialised.
  void expect_messages() {
    for (int i = 0; i < 2; ++i) expect_message();
  }

  void send() {
    post_send(qp_, {.region = *mr_, .octets = kOctets}, 0);
    ++unsent_;
  }

  void await_message() {
    while (messages_ == 0) poll();
    --messages_;
  }
  void await_sent() {
    while (unsent_ != 0) poll();
  }

 private:
  void expect_message() { post_receive(qp_, {.region = *mr_, .offset = 1024, .octets = kOctets}, 0); }

  // Polls without yielding the core, like the programs for which ACKs are held.
  void poll() {
    ibv_wc completion;
    if (ibv_poll_cq(cq_, 1, &completion) == 0) return;
    if (completion.status != IBV_WC_SUCCESS) fail(describe(completion));
    if (completion.opcode == IBV_WC_RECV) {
      ++messages_;
      expect_message();
    } else {
      --unsent_;
    }
  }

  ibv_cq* cq_;
  ibv_qp* qp_;
  ibv_mr* mr_ = nullptr;
  int messages_ = 0;
  int unsent_ = 0;
};

void leave(const std::string& way, const End& end) {
  if (way == "exit") std::exit(0);
  if (way == "quick_exit") std::quick_exit(0);
  if (way == "_exit") ::_exit(0);
  if (way == "_Exit") std::_Exit(0);
  if (way == "kill") std::raise(SIGKILL);
  if (way == "sleep") {
    sleep(2);
  } else if (way == "destroy_exit") {
    ibv_destroy_qp(end.qp());
  } else if (way == "destroy") {
    ibv_destroy_qp(end.qp());
    usleep(200'000);
  } else {
    fail("--leave must be exit, quick_exit, _exit, _Exit, kill, destroy, destroy_exit or sleep");
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const std::uint64_t rounds = arguments.number("rounds", 200);
  const std::string way = arguments.text("leave", "exit");
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  Completions completions(device, 16, false);
  End end(device, completions.cq());
  const QpAddress own = device.prepare(end.qp(), 4711);
  end.expect_messages();
  device.connect(end.qp(), own, side.trade(own), {.timeout = 19, .retries = 1});
  side.meet();
  const bool sender = side.side() == 1;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (sender) end.send();
    end.await_message();
    if (!sender) end.send();
    end.await_sent();
  }
  if (!sender) {
    end.await_message();
    leave(way, end);
  }
  const double begin = monotonic_seconds();
  end.send();
  end.await_sent();
  say("the last message was answered after " +
      std::to_string(static_cast<int>((monotonic_seconds() - begin) * 1e6)) + " us");
  return 0;
}
