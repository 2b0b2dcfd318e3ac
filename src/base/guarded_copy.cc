#include "base/guarded_copy.h"

#include <signal.h>

#include <cstring>

namespace rrdma {

thread_local FaultGuard* active_fault_guard = nullptr;

// noinline, and nothing live across the setjmp but the volatile outer pointer: the second return of
// sigsetjmp finds registers in an unknown state.
__attribute__((noinline)) bool guarded_call(void (*body)(void*), void* argument) noexcept {
  FaultGuard guard;
  FaultGuard* volatile outer = active_fault_guard;
  if (sigsetjmp(guard.frame, 0) != 0) {
    active_fault_guard = outer;
    return false;
  }
  active_fault_guard = &guard;
  body(argument);
  active_fault_guard = outer;
  return true;
}

__attribute__((noinline)) bool guarded_copy(void* to, const void* from, std::size_t n) noexcept {
  FaultGuard guard;
  FaultGuard* volatile outer = active_fault_guard;
  if (sigsetjmp(guard.frame, 0) != 0) {
    active_fault_guard = outer;
    return false;
  }
  active_fault_guard = &guard;
  asm volatile("" ::: "memory");  // the copy must not move out of the guard
  std::memcpy(to, from, n);
  asm volatile("" ::: "memory");
  active_fault_guard = outer;
  return true;
}

void recover_from_fault() noexcept {
  if (active_fault_guard == nullptr) return;
  // The guard does not save the mask (that would cost a syscall each time), and a handler may run with these
  // signals blocked; left so, the next fault would end the program.
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  sigprocmask(SIG_UNBLOCK, &faults, nullptr);
  siglongjmp(active_fault_guard->frame, 1);
}

}  // namespace rrdma
