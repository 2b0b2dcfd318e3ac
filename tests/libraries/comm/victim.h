// A process to be killed: another instance of the program, as `PROGRAM victim WORDS...`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/context.h"

namespace seeds {

struct Victim {
  pid_t pid = 0;
  std::string address;  // as reported by the victim
};

// Returns when the victim has reported its address. The victim inherits descriptors without O_CLOEXEC, with
// the same numbers.
Victim start_victim(std::uint64_t seed, std::vector<std::string> words);

// Sleeps for a random time: often as short as a handshake, sometimes until many operations are in flight.
rrdma::comm::Task<> await_the_moment(rrdma::comm::Context& context, std::uint64_t seed);
// Sends SIGKILL. Fails if the victim had already ended.
void kill(const Victim& victim, std::uint64_t seed);

// Called first in the victim, so that it ends with the swarm.
void end_with_parent();
void say_where(std::string address, std::uint64_t seed);

}  // namespace seeds
