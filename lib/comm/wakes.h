// Coroutines that wait for the end of the current turn (Wake in scope.h), one list for each thread. A turn of
// any context of the thread resumes them.
#pragma once

#include "rrdma/comm/scope.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// True if a waiter may be in this thread's list.
extern constinit thread_local bool wakes_waiting;
void resume_wakes();

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
