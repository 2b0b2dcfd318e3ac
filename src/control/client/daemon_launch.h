// Starting rrdmad from inside somebody else's program, without the program noticing: two children that
// borrow the caller's memory (as vfork does, so that a process of 100 GB starts it as fast as a small
// one), no SIGCHLD, no zombie, a session of its own, none of the program's descriptors, signals as at
// birth, and no LD_PRELOAD. That exactly one daemon remains is the daemon's work (it holds a name);
// that not a hundred are started is the client's (start_name).
#pragma once

#include <string>

#include "base/problem.h"
#include "base/result.h"

namespace rrdma::control {

// The daemon's executable: $RRDMA_DAEMON, or beside the object that this code is in (build tree,
// install tree), or where it was installed. A sentence where there is none.
[[nodiscard]] Result<std::string, Problem> find_daemon();

// Starts it and returns once it runs (it is not ready yet: connect until it answers). Any thread.
[[nodiscard]] Result<void, Problem> launch_daemon(const std::string& executable);

}  // namespace rrdma::control
