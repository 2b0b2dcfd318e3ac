// Guarded access to memory that a program registered and may have unmapped since. If a fault occurs inside
// guarded_copy() or guarded_call(), recover_from_fault() makes the call return false. The SIGSEGV/SIGBUS
// handler that nic/ installs calls it first; without a handler, a fault kills the program as usual. A guard
// costs about ten nanoseconds: no system call, no page walk. Small copies need no guard (fault_table.h).
#pragma once

#include <setjmp.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>

// For functions whose atomic accesses may fault under a guard. The thread sanitizer holds a lock inside such
// an access, and a jump out of it would never release the lock. Use the __atomic builtins in these functions.
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

// Copies n bytes. False if a page is not mapped; a prefix may have been copied.
[[nodiscard]] bool guarded_copy(void* to, const void* from, std::size_t n) noexcept;

// Calls body(argument) under a guard. Returns false if it faulted. A fault abandons the body without
// unwinding. It must therefore own nothing that needs a destructor and must not be in the middle of a state
// change.
[[nodiscard]] bool guarded_call(void (*body)(void*), void* argument) noexcept;

// For the signal handler, with its third argument. If this thread is inside a guard, restores the signal mask
// from before the fault, jumps out of the guard and does not return. True: an access of fault_table.h faulted
// and fails when the handler returns. False: the fault is not ours.
[[nodiscard]] bool recover_from_fault(void* context) noexcept;

}  // namespace rrdma
