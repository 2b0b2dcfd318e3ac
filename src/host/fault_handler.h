// The process's SIGSEGV/SIGBUS handler: a fault inside a guarded copy (base/guarded_copy.h) is turned
// into an answer; every other fault goes to whoever handled the signal before, as if we were not there.
#pragma once

namespace rrdma::host {

// Idempotent; any thread.
void install_fault_handler();

}  // namespace rrdma::host
