// The work of a server and a client over a connection, in each mode, and its measurement. Both ends know the
// plan. The client checks the data that it reads, the server the data that was written, and each reports to
// the other with a SEND.
//
//   latency:    one message at a time, `rounds` times
//   bandwidth:  Channel::kDepth in flight, `rounds` times
#pragma once

#include "examples/verbs/channel.h"
#include "examples/verbs/options.h"

namespace examples {

// In network byte order when sent.
struct Plan {
  Mode mode = Mode::kSend;
  std::uint32_t rounds = 0;
  std::uint32_t size = 0;
};

inline constexpr std::uint64_t kCounterStart = 1000;

// Fills the target memory for the mode. REQUIRES: the client does not use it yet.
void prepare_target(Channel& channel, const Plan& plan);
// REQUIRES: connected. Returns when everything is checked. A wrong byte ends the program.
void serve(Channel& channel, const Plan& plan, Narrator& narrator);
void call(Channel& channel, const Plan& plan, const RemoteMemory& remote, Narrator& narrator);

}  // namespace examples
