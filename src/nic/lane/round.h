// Round: one look at the links of a lane. It receives, judges silence, answers, and then tells the program,
// in this order:
//
//   packets and timers   the engine delivers messages and writes their last answers (wire/last_answer.h); a
//                        polling program can see the messages from here on
//   answers              written to the ring or socket, unless they wait for a polling program's reply
//                        (delayed ACK)
//   captures             written, if an event is due
//   events               raised
//
// So a program may end as soon as an event wakes it: its peer has the ACK. The code is a template, so that
// the same steps run in a process and in the model of programs that end (tests/programs/endings).
//
// Threads: under the lane's lock.
#pragma once

#include <cstddef>

#include "base/instant.h"
#include "link/link.h"
#include "link/udp/intake.h"
#include "nic/wakeup/wakeup.h"
#include "transport/engine.h"

namespace rrdma::nic {

// Completion events are held while it lives, and raised when it ends.
template <typename Links>
class EventHold {
 public:
  EventHold(transport::Engine& engine, Links& links, bool ended)
      : held_(engine.held_events()), links_(links), ended_(ended) {
    held_.hold();
  }
  ~EventHold() {
    if (held_.any() || ended_) links_.write_captures();
    held_.release();
  }
  EventHold(const EventHold&) = delete;
  EventHold& operator=(const EventHold&) = delete;

 private:
  objects::HeldEvents& held_;
  Links& links_;
  const bool ended_;
};

struct RoundCall {
  Instant now;
  WakeUp::Caller caller;
  bool ended;  // the program ends: no answer is delayed
};

// Judges silence after all arrived packets were received: this thread may have been late. Returns how many it
// received.
template <typename Links>
std::size_t handle_timers(transport::Engine& engine, Links& links, link::Receiver& receiver, Instant now) {
  constexpr int kRoundsBeforeTimers = 64;
  std::size_t received = 0;
  for (int i = 0; i < kRoundsBeforeTimers; ++i) {
    const std::size_t more = links.poll_all(link::Look::kEverywhere, receiver, now);
    if (more == 0) break;
    received += more;
  }
  engine.handle_timers(now);
  return received;
}

// `send` transmits and flushes what the engine has to send. Returns how many packets came.
template <typename Links, typename Send>
std::size_t take_round(transport::Engine& engine, Links& links, WakeUp& wakeup, link::Receiver& receiver,
                       const RoundCall& call, Send send) {
  const EventHold<Links> events(engine, links, call.ended);
  const Instant now = call.now;
  const auto messages = [&engine] {
    return engine.counters_by_device().sum(&transport::Counters::messages_received);
  };
  const std::uint64_t messages_before = messages();
  std::size_t received = call.caller == WakeUp::Caller::kThread
                             ? links.poll_all(link::Look::kPending, receiver, now)
                             : links.poll(receiver, now);
  if (now >= engine.next_deadline() && now >= engine.settled_deadline())
    received += handle_timers(engine, links, receiver, now);
  if (wakeup.note_arrivals(messages() != messages_before, now, call.caller)) {
    if (!engine.held_events().any() && !call.ended) return received;
    wakeup.give_up_reply();
  }
  if (engine.wants_transmit() || now >= links.next_deadline()) {
    send(now);
  } else {
    links.note_served();
  }
  return received;
}

}  // namespace rrdma::nic
