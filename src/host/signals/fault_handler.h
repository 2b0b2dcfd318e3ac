// The process's SIGSEGV/SIGBUS handler: a fault inside a guarded copy (base/guarded_copy.h) is turned
// into an answer; everything else happens as if we were not there. That means: what somebody sent (kill) is
// not a fault; the program's action is the one that counts, also when it is set after ours; its mask, its
// SA_RESETHAND, SIG_IGN and the default are what the kernel would make of them.
//
// So that a handler which the program installs later does not replace ours, the preload leads sigaction() and
// signal() here (program_action).
#pragma once

#include <signal.h>

namespace rrdma::host {

// Idempotent; any thread.
void install_fault_handler();

// Whether the action of this signal is kept here, because the kernel knows ours in its place. False in the
// child of a vfork, whose actions are its own, and while we install ours.
[[nodiscard]] bool keeps_action(int signal);

// As sigaction() for a signal that is kept. Async-signal-safe.
void exchange_action(int signal, const struct sigaction* action, struct sigaction* old);

}  // namespace rrdma::host
