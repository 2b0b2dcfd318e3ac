// Starts rrdmad from inside another program, unnoticed by it. Two children borrow the caller's memory, as
// vfork does, so that a process of 100 GB starts it as fast as a small one. There is no SIGCHLD and no
// zombie. The daemon gets its own session, none of the program's descriptors, default signal actions, and no
// LD_PRELOAD. The daemon itself ensures that only one remains (it holds a name); the client ensures that few
// are started (start_lock, which the daemon inherits).
#pragma once

#include <string>

#include "base/problem.h"
#include "base/result.h"

namespace rrdma::control {

// The daemon's executable: $RRDMA_DAEMON, or beside the object that contains this code (build tree, install
// tree), or the installed path. A sentence if there is none.
[[nodiscard]] Result<std::string, Problem> find_daemon();

// Starts the daemon and returns once it runs. It is not ready yet: retry connecting until it answers. It
// holds a copy of `start_lock` (-1: none) until then. Any thread.
[[nodiscard]] Result<void, Problem> launch_daemon(const std::string& executable, int start_lock);

}  // namespace rrdma::control
