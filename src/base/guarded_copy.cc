#include "base/guarded_copy.h"

#include <signal.h>
#include <ucontext.h>

#include <cstring>

#include "base/fault_table.h"

// Hide the accesses of the NIC from the thread sanitizer. They are not accesses by one of the program's
// threads: a program may spin on a byte that a WRITE will change.
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

// Only the outermost guard annotates the access, so that the sanitizer's count never exceeds one.
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

// The sanitizer ends the annotated region before it calls a signal handler, and begins it again when the
// handler returns. Our handler does not return.
void resume_device_access([[maybe_unused]] const FaultGuard* outer) {
#if defined(RRDMA_WATCHED_BY_TSAN)
  if (outer != nullptr) begin_device_access(nullptr);
#endif
}

}  // namespace

thread_local FaultGuard* active_fault_guard = nullptr;

// noinline, and only the volatile outer pointer is live across the setjmp: register contents are
// indeterminate after the second return of sigsetjmp.
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

// noinline for the same reason as guarded_call().
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
  asm volatile("" ::: "memory");  // keep the copy inside the guard
  std::memcpy(to, from, n);
  asm volatile("" ::: "memory");
  end_device_access(outer);
  active_fault_guard = outer;
  return true;
}

bool guarded_copy(void* to, const void* from, std::size_t n) noexcept {
  if (to == nullptr || from == nullptr) return n == 0;  // a program may pass any address
  return n <= kSmallCopyMax ? small_copy(to, from, n) : guarded_long_copy(to, from, n);
}

bool recover_from_fault(void* context) noexcept {
  if (leave_faulting_access(context)) return true;
  if (active_fault_guard == nullptr) return false;
  // The guard does not save the signal mask: that would cost a system call for each guard.
  sigprocmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
  siglongjmp(active_fault_guard->frame, 1);
}

}  // namespace rrdma
