// The SIGSEGV/SIGBUS handler of the process. It recovers from faults inside a guarded copy
// (base/guarded_copy.h); everything else happens as if it were not installed. A signal that was sent (kill)
// is not a fault. The program's action applies, even if it is set after ours. Its mask, SA_RESETHAND, SIG_IGN
// and the default behave as in the kernel.
//
// The preload redirects sigaction() and signal() to this file, so that a handler that the program installs
// later does not replace ours.
#pragma once

#include <signal.h>

namespace rrdma::host {

// Idempotent; any thread.
void install_fault_handler();

// Whether this file stores the program's action, because the kernel has our handler installed in its place.
// False in the child of a vfork, which has actions of its own, and while we install our handler.
[[nodiscard]] bool keeps_action(int signal);

// Like sigaction(), for a signal whose action is stored here. Async-signal-safe.
void exchange_action(int signal, const struct sigaction* action, struct sigaction* old);

}  // namespace rrdma::host
