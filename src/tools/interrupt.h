// Ctrl-C as a flag: a command that prints or waits for long stops at a good place, tidies up, and the
// process then ends by the signal all the same, so that shells and scripts see what happened.
#pragma once

namespace rrdma::tools {

// From now on SIGINT and SIGTERM set the flag, and end blocking system calls with EINTR.
void watch_interrupts();

[[nodiscard]] bool interrupted();
// The signal was for what is over: what comes now is done to its end. A second one ends the process at once.
void go_on_after_interrupt();

// Ends the process by the signal that came; returns if none did. main() calls it last.
void end_by_interrupt();

}  // namespace rrdma::tools
