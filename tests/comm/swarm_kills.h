// The part of the swarm in which a peer is killed: a process of its own, ended by SIGKILL at a random point.
#pragma once

#include <cstdint>
#include <string>

#include "tests/comm/swarm.h"

namespace comm_swarm {

// Starts a victim, connects to it or lets it connect, does everything with it at once, and kills it. Ends when every waiter has
// resumed; how long after the kill that was.
//
// The oracle: before the kill nobody sees an error that was not asked for; after it every waiter resumes within kPatience with an error that names
// the peer. Messages come in order, without gaps and whole; those on loan stay whole although their sender is dead. Memory that was open to the
// victim is not written any more once its connections have ended.
Task<Clock::duration> kill_a_peer(Context& context, std::uint64_t seed);

// The victim's own life, until it is killed: `words` are those that kill_a_peer started it with.
int be_killed(int count, char** words);

}  // namespace comm_swarm
