// Model: the last moments of a receiving program and its peer, in virtual time. The engine, the steps of a
// round, the wake-up protocol with its delayed ACK, the capture and the last answers are the real code. The
// wire, the threads, the daemon and the ways to end are modelled. A plan determines its run on every machine.
//
// The receiver's program runs beside the threads of its lanes. At every point at which those could be
// interrupted, the program may poll, see the last message and end. A plan for each value of `after` covers
// every such point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rrdma::endings {

enum class End : std::uint8_t {
  kAtOnce,   // SIGKILL, a crash, exec, exit_group: no code of RRDMA runs any more
  kLanes,    // exit, _exit, quick_exit, exit in a handler, the last pthread_exit: every lane ends first
  kHandler,  // exit in a handler that interrupts a polling thread: the lane that it polls does not end
  kNever,    // a child of fork ends, a library is closed: the program lives on and calls no verb
};

struct ModelPlan {
  std::uint64_t seed = 1;
  bool ring = false;     // otherwise UDP
  bool events = false;   // otherwise the programs poll
  bool capture = false;  // of the receiver
  unsigned rounds = 0;   // of ping-pong before the last message
  unsigned lanes = 1;
  End end = End::kAtOnce;
  std::uint64_t after = 0;  // steps from the last message that the program sees to its end; not of kNever
  std::optional<std::uint64_t> kill_at;  // kill the program at this step in any case
};

struct ModelOutcome {
  std::string broken;        // the broken promise; empty: none
  std::uint64_t steps = 0;   // of the receiver, until it was dead
  bool held_an_ack = false;  // it died while an ACK waited for a reply
};

[[nodiscard]] ModelOutcome run_model(const ModelPlan& plan);

}  // namespace rrdma::endings
