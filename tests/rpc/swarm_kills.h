// The part of the swarm in which a server or a client is killed: a process of its own, ended by SIGKILL at a random point.
#pragma once

#include <string>

#include "tests/rpc/swarm.h"

namespace rpc_swarm {

// Starts a victim, calls it or lets it call, and kills it. Ends when nothing waits for it any more; how long after the kill that was.
//
// The oracle, beside that of every call: of a server that was killed, each caller learns within a third of kPatience, by kUnavailable; what may be repeated
// is done by `survivor`, the address of a server that stays. Of a client that was killed, its server has no handler and no connection after that time, and
// whoever else calls it sees nothing.
Task<comm::Clock::duration> kill_somebody(World& world, std::string survivor, std::uint64_t seed);

// The victim's own life, until it is killed: `words` are those that kill_somebody started it with.
int be_killed(int count, char** words);

}  // namespace rpc_swarm
