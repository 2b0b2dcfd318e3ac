// What a server and a client do over a connection, in each mode, and how fast it was. Both ends know the
// plan; the client checks what it reads, the server what was written, and each tells the other in a SEND.
//
//   latency:    one message at a time, `rounds` times
//   bandwidth:  Channel::kDepth under way, `rounds` times
#pragma once

#include "examples/verbs/channel.h"
#include "examples/verbs/options.h"

namespace examples {

// In network byte order where it travels.
struct Plan {
  Mode mode = Mode::kSend;
  std::uint32_t rounds = 0;
  std::uint32_t size = 0;
};

inline constexpr std::uint64_t kCounterStart = 1000;

// Fills the target memory for the mode. Before the client may touch it.
void prepare_target(Channel& channel, const Plan& plan);
// REQUIRES: connected. Return when all is checked; a wrong octet ends the program.
void serve(Channel& channel, const Plan& plan, Narrator& narrator);
void call(Channel& channel, const Plan& plan, const RemoteMemory& remote, Narrator& narrator);

}  // namespace examples
