// volley: sends `--octets` bytes to and fro, --rounds times. Each end polls, or with --events sleeps in
// its completion channel. Prints how long a round took: "a round took N us". If a round takes longer than
// --patience seconds, the program ends and prints the completion that it waited for.
#include <algorithm>
#include <string>
#include <vector>

#include "completions.h"
#include "requests.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

class End {
 public:
  End(Device& device, bool events, std::uint32_t octets, double patience)
      : completions_(device, 16, events),
        qp_(device.create_qp(completions_.cq(), {.sends = 4, .receives = 4})),
        mr_(device.register_memory(map_memory(2 * std::size_t{octets}), 2 * std::size_t{octets})),
        octets_(octets),
        patience_(patience) {}
  ~End() {
    ibv_destroy_qp(qp_);
    ibv_dereg_mr(mr_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  [[nodiscard]] ibv_qp* qp() const { return qp_; }
  void expect_message() { post_receive(qp_, {.region = *mr_, .offset = octets_, .octets = octets_}, 0); }
  void send() {
    post_send(qp_, {.region = *mr_, .octets = octets_}, 0);
    ++unsent_;
  }
  void await_message() {
    while (messages_ == 0) take("a message");
    --messages_;
    expect_message();
  }
  void await_sent() {
    while (unsent_ != 0) take("an acknowledgement");
  }

 private:
  void take(const char* what) {
    ibv_wc completion;
    if (completions_.wait(&completion, 1, patience_) == 0)
      fail("stalled: waited for " + std::string(what) + " in vain");
    if (completion.status != IBV_WC_SUCCESS) fail(describe(completion));
    if (completion.opcode == IBV_WC_RECV) {
      ++messages_;
    } else {
      --unsent_;
    }
  }

  Completions completions_;
  ibv_qp* qp_;
  ibv_mr* mr_;
  const std::uint32_t octets_;
  const double patience_;
  int messages_ = 0;
  int unsent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const long rounds = arguments.number("rounds", 20);
  const auto octets = static_cast<std::uint32_t>(arguments.number("octets", 4 << 20));
  const bool events = arguments.flag("events");
  const auto patience = static_cast<double>(arguments.number("patience", 20));
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  End end(device, events, octets, patience);
  const QpAddress own = device.prepare(end.qp(), 4711);
  end.expect_message();
  device.connect(end.qp(), own, side.trade(own));
  side.meet();
  std::vector<double> took;
  for (long i = 0; i < rounds; ++i) {
    const double begin = monotonic_seconds();
    if (side.side() == 1) end.send();
    end.await_message();
    if (side.side() == 0) end.send();
    end.await_sent();
    took.push_back(monotonic_seconds() - begin);
  }
  std::nth_element(took.begin(), took.begin() + rounds / 2, took.end());
  say("a round took " + std::to_string(static_cast<long>(took[static_cast<std::size_t>(rounds / 2)] * 1e6)) +
      " us");
  side.meet();
  return 0;
}
