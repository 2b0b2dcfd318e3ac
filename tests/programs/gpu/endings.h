// Contexts and processes that end while requests are in flight: error completions, never a crash.
#pragma once

#include <sys/types.h>

#include "talk.h"

namespace gpu {

// A context of the program's own, besides the primary one: its memory works until the context is destroyed.
void check_own_context(const Cuda& cuda, const Device& device, const Companion& companion);

// The primary context is reset, first that of the target, then that of the initiator. Memory of the next
// context works. Memory from before the reset does not.
void check_reset(const Cuda& cuda, const Device& device, const Companion& companion);

// The process forks while requests are in flight. Requests of the child are refused, the child exits, and the
// parent goes on.
void check_fork(const Cuda& cuda, const Companion& companion);

enum class Ending { kKilled, kExits };
// One process is killed by the other, or calls exit(), while requests are in flight in both directions. The
// other one gets an error completion. Does not return in the process that ends.
void check_end(const Cuda& cuda, const Companion& companion, Ending ending, int ending_side, pid_t other);

}  // namespace gpu
