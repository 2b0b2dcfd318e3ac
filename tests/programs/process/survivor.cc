// survivor: a sender whose peer dies. Side 1 streams SENDs to side 0, which only receives them. The harness
// kills side 0. Side 1 then prints when the first error completion came and with which status. It checks that
// every posted request has completed exactly once, in order: the successful ones, one error, then the flushed
// ones.
#include <sched.h>
#include <unistd.h>

#include <string>

#include "completions.h"
#include "requests.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::uint32_t kWindow = 32;
constexpr std::uint32_t kOctets = 2000;
constexpr std::uint64_t kFlowing = 200;

Part slot_of(const ibv_mr& mr, std::uint64_t slot) {
  return {.region = mr, .offset = slot * kOctets, .octets = kOctets};
}

[[noreturn]] void take_for_ever(Completions& completions, ibv_qp* qp, const ibv_mr& mr) {
  for (;;) {
    ibv_wc completion;
    if (completions.wait(&completion, 1, 60) == 0) fail("nobody sends");
    if (completion.status != IBV_WC_SUCCESS) fail("receive failed: " + describe(completion));
    post_receive(qp, slot_of(mr, completion.wr_id), completion.wr_id);
  }
}

// Sends until a request fails, then drains. Returns the number of successes.
std::uint64_t send_until_it_ends(Completions& completions, ibv_qp* qp, const ibv_mr& mr, double patience) {
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  std::uint64_t good = 0;
  bool failed = false;
  for (;;) {
    while (!failed && posted - completed < kWindow) post_send(qp, slot_of(mr, 0), posted++);
    if (failed && completed == posted) return good;
    ibv_wc completion;
    if (completions.wait(&completion, 1, patience) == 0)
      fail("no completion for " + std::to_string(patience) + " s with " + std::to_string(posted - completed) +
           " outstanding");
    if (completion.wr_id != completed) fail("out of order: " + describe(completion));
    ++completed;
    if (completion.status == IBV_WC_SUCCESS) {
      if (failed) fail("a success after the error");
      if (++good == kFlowing) say("flowing");
    } else if (!failed) {
      failed = true;
      say("error " + std::to_string(completion.status) + " at " + std::to_string(monotonic_seconds()));
    } else if (completion.status != IBV_WC_WR_FLUSH_ERR) {
      fail("neither success nor flushed: " + describe(completion));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const bool events = arguments.flag("events");
  const Patience patience{.timeout = static_cast<std::uint8_t>(arguments.number("timeout", 14)),
                          .retries = static_cast<std::uint8_t>(arguments.number("retries", 7))};
  const auto seconds = static_cast<double>(arguments.number("patience", 60));
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  Completions completions(device, 4 * kWindow, events);
  ibv_qp* const qp = device.create_qp(completions.cq(), {.sends = kWindow, .receives = kWindow});
  const std::size_t octets = kWindow * kOctets;
  ibv_mr* const mr = device.register_memory(map_memory(octets), octets);
  const QpAddress own = device.prepare(qp, 4711);
  if (side.side() == 0) {
    for (std::uint64_t i = 0; i < kWindow; ++i) post_receive(qp, slot_of(*mr, i), i);
  }
  device.connect(qp, own, side.trade(own), patience);
  side.meet();
  if (side.side() == 0) take_for_ever(completions, qp, *mr);
  const std::uint64_t good = send_until_it_ends(completions, qp, *mr, seconds);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  if (ibv_query_qp(qp, &attributes, IBV_QP_STATE, &initial) != 0 || attributes.qp_state != IBV_QPS_ERR)
    fail("the QP is not in the error state");
  say(std::to_string(good) + " messages went well before, and every request completed");
  ibv_destroy_qp(qp);
  ibv_dereg_mr(mr);
  return 0;
}
