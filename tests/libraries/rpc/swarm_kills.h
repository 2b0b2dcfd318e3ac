// The part of the swarm with kills: a server or a client is a separate process, ended by SIGKILL at a random
// point.
#pragma once

#include <string>

#include "tests/libraries/rpc/swarm.h"

namespace rpc_swarm {

// Starts a victim, calls it or lets it call, and kills it. Ends when nothing waits for the victim any more.
// Returns the time from the kill until then.
//
// The oracle, in addition to that of every call: callers of a killed server get kUnavailable within a third
// of kPatience, and repeatable calls are executed by `survivor`, the address of a server that stays. After
// that time, the server of a killed client has no handlers or connections of it, and its other callers are
// not affected.
Task<comm::Clock::duration> kill_somebody(World& world, std::string survivor, std::uint64_t seed);

// The victim itself, until it is killed. `words` are the arguments from kill_somebody.
int be_killed(int count, char** words);

}  // namespace rpc_swarm
