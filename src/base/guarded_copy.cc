#include "base/guarded_copy.h"

#include <signal.h>
#include <ucontext.h>

#include <cstring>

#include "base/fault_table.h"

// What a NIC does to a program's memory is no access by any of its threads: a program may well spin on an octet
// that a WRITE will change. The thread sanitizer must not see it as one.
#if defined(__SANITIZE_THREAD__)
#define RRDMA_WATCHED_BY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RRDMA_WATCHED_BY_TSAN 1
#endif
#endif
#if defined(RRDMA_WATCHED_BY_TSAN)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace rrdma {
namespace {

// The outermost guard announces the access, so that the sanitizer's count is one or none.
void begin_device_access([[maybe_unused]] const FaultGuard* outer) {
#if defined(RRDMA_WATCHED_BY_TSAN)
  if (outer != nullptr) return;
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}

void end_device_access([[maybe_unused]] const FaultGuard* outer) {
#if defined(RRDMA_WATCHED_BY_TSAN)
  if (outer != nullptr) return;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}

// The sanitizer ends what was announced before it calls a signal handler; it would begin again when the handler
// returned, which ours does not.
void resume_device_access([[maybe_unused]] const FaultGuard* outer) {
#if defined(RRDMA_WATCHED_BY_TSAN)
  if (outer != nullptr) begin_device_access(nullptr);
#endif
}

}  // namespace

thread_local FaultGuard* active_fault_guard = nullptr;

// noinline, and nothing live across the setjmp but the volatile outer pointer: the second return of
// sigsetjmp finds registers in an unknown state.
__attribute__((noinline)) bool guarded_call(void (*body)(void*), void* argument) noexcept {
  FaultGuard guard;
  FaultGuard* volatile outer = active_fault_guard;
  if (sigsetjmp(guard.frame, 0) != 0) {
    resume_device_access(outer);
    active_fault_guard = outer;
    return false;
  }
  active_fault_guard = &guard;
  begin_device_access(outer);
  body(argument);
  end_device_access(outer);
  active_fault_guard = outer;
  return true;
}

// noinline for the same reason.
__attribute__((noinline)) bool guarded_long_copy(void* to, const void* from, std::size_t n) noexcept {
  FaultGuard guard;
  FaultGuard* volatile outer = active_fault_guard;
  if (sigsetjmp(guard.frame, 0) != 0) {
    resume_device_access(outer);
    active_fault_guard = outer;
    return false;
  }
  active_fault_guard = &guard;
  begin_device_access(outer);
  asm volatile("" ::: "memory");  // the copy must not move out of the guard
  std::memcpy(to, from, n);
  asm volatile("" ::: "memory");
  end_device_access(outer);
  active_fault_guard = outer;
  return true;
}

bool guarded_copy(void* to, const void* from, std::size_t n) noexcept {
  if (to == nullptr || from == nullptr) return n == 0;  // a program may give any address
  return n <= kSmallCopyMax ? small_copy(to, from, n) : guarded_long_copy(to, from, n);
}

bool recover_from_fault(void* context) noexcept {
  if (leave_faulting_access(context)) return true;
  if (active_fault_guard == nullptr) return false;
  // The guard does not save the mask: that would cost a system call each time.
  sigprocmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
  siglongjmp(active_fault_guard->frame, 1);
}

}  // namespace rrdma
