// What keeps the parking of a system daemon alive while it is restarted. The programs of other users must
// not hold it (whoever does can read every slot), so it is given to the service manager (the descriptor
// store of systemd), or, where there is none, to a small child process that waits for the next daemon.
#pragma once

#include "base/owned_fd.h"

namespace rrdma::daemon {

// Tells systemd that the daemon is ready. Nothing happens without it.
void announce_ready();
// True when systemd keeps a copy from now on.
bool store_parking(int parking_end);
// The parking that systemd kept for us; invalid when there is none.
[[nodiscard]] OwnedFd stored_parking();
// It is of no use: systemd shall close its copy.
void drop_stored_parking();

// Starts the child process. REQUIRES: one thread.
void start_keeper(int parking_end);

}  // namespace rrdma::daemon
