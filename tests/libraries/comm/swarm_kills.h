// The part of the swarm with kills: the peer is a separate process, ended by SIGKILL at a random point.
#pragma once

#include <cstdint>
#include <string>

#include "tests/libraries/comm/swarm.h"

namespace comm_swarm {

// Starts a victim, connects to it or accepts it, runs all kinds of operations concurrently, and kills it.
// Ends when every waiter has resumed. Returns the time from the kill until then.
//
// The oracle: before the kill there are no unrequested errors. After it, every waiter resumes within
// kPatience with an error that names the peer. Messages arrive complete, in order and without gaps; held
// messages stay intact although their sender is dead. Memory that was open to the victim does not change
// after its connections have ended.
Task<Clock::duration> kill_a_peer(Context& context, std::uint64_t seed);

// The victim itself, until it is killed. `words` are the arguments from kill_a_peer.
int be_killed(int count, char** words);

}  // namespace comm_swarm
