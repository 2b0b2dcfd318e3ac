// Keeps the parking of a system daemon alive while the daemon restarts. Programs of other users must not hold
// it, because its holder can read every slot. So the service manager keeps it (the descriptor store of
// systemd) or, without one, a small child process that waits for the next daemon.
#pragma once

#include "base/owned_fd.h"

namespace rrdma::daemon {

// Tells systemd that the daemon is ready. Does nothing without systemd.
void announce_ready();
// True if systemd keeps a copy from now on.
bool store_parking(int parking_end);
// The parking that systemd kept for us; invalid if there is none.
[[nodiscard]] OwnedFd stored_parking();
// Asks systemd to close its copy, because it is useless.
void drop_stored_parking();

// Starts the child process. REQUIRES: one thread.
void start_keeper(int parking_end);

}  // namespace rrdma::daemon
