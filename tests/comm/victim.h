// A process that is there to be killed: the same program again, as `PROGRAM victim WORDS...`.
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
  std::string address;  // what it said of where it is
};

// Returns when the victim has said where it is. Descriptors without O_CLOEXEC are the victim's as well, with the same numbers.
Victim start_victim(std::uint64_t seed, std::vector<std::string> words);

// Sleeps for a while: often no longer than a handshake takes, sometimes until much is under way.
rrdma::comm::Task<> await_the_moment(rrdma::comm::Context& context, std::uint64_t seed);
// SIGKILL. Whoever had ended by itself is a failure.
void kill(const Victim& victim, std::uint64_t seed);

// In the victim, first of all: nobody is left behind when the swarm itself ends.
void end_with_parent();
void say_where(std::string address, std::uint64_t seed);

}  // namespace seeds
