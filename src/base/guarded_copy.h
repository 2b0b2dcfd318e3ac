// Guarded access to memory that a program registered and may have unmapped since. A fault inside
// guarded_copy() or guarded_call() is turned into `false` by recover_from_fault(), which the process's
// SIGSEGV/SIGBUS handler (installed by nic/) calls first. Without a handler a fault ends the program as
// usual. A guard costs some ten nanoseconds: no syscall, no page walk. Small copies need none (fault_table.h).
#pragma once

#include <setjmp.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>

// For functions with atomic accesses that may fault under a guard: the thread sanitizer holds a lock inside
// such an access, and a jump out of it would never give it back. Use the __atomic builtins in them.
#if defined(__clang__)
#define RRDMA_MAY_FAULT __attribute__((noinline, disable_sanitizer_instrumentation))
#else
#define RRDMA_MAY_FAULT __attribute__((noinline, no_sanitize("thread")))
#endif

namespace rrdma {

struct FaultGuard {
  sigjmp_buf frame;
};

// The innermost active guard of this thread; null outside guarded code.
extern thread_local FaultGuard* active_fault_guard;

// Copies n octets. False if a page was not there; then some prefix may have been copied.
[[nodiscard]] bool guarded_copy(void* to, const void* from, std::size_t n) noexcept;

// Calls body(argument) under the guard. False if it faulted: then it was left where it was, so it must
// own nothing that needs a destructor, and must not be in the middle of changing state.
[[nodiscard]] bool guarded_call(void (*body)(void*), void* argument) noexcept;

// For the signal handler, with its third argument. If this thread is inside a guard, jumps out of it, with the mask of
// signals that the fault interrupted, and does not return. True: an access of fault_table.h is left when the handler
// returns. False: the fault is somebody else's.
[[nodiscard]] bool recover_from_fault(void* context) noexcept;

}  // namespace rrdma
