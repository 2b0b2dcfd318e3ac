// Ctrl-C as a flag. A command that prints or waits for long stops at a safe point and cleans up. The process
// then still ends by the signal, so that shells and scripts notice.
#pragma once

namespace rrdma::tools {

// From now on, SIGINT and SIGTERM set the flag and interrupt blocking system calls with EINTR.
void watch_interrupts();

[[nodiscard]] bool interrupted();
// Clears the flag: the signal ended the previous step, and the following steps run to completion. A second
// signal ends the process at once.
void go_on_after_interrupt();

// Ends the process by the received signal. Returns if there was none. main() calls it last.
void end_by_interrupt();

}  // namespace rrdma::tools
