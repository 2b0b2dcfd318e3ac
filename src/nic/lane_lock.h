// LaneLock: the lock of a lane. Short critical sections, usually uncontended, often tried: one atomic
// exchange to take it; a contender spins for about a microsecond and then sleeps in the kernel.
// Satisfies Lockable, so std::unique_lock works.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace rrdma::nic {

inline void cpu_relax() {
#if defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class LaneLock {
 public:
  bool try_lock() {
    std::uint32_t expected = kFree;
    return state_.load(std::memory_order_relaxed) == kFree &&
           state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }

  void lock() {
    if (try_lock()) return;
    for (int i = 0; i < kSpins; ++i) {
      if (try_lock()) return;
      cpu_relax();
    }
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
      syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kContended, nullptr, nullptr, 0);
    }
  }

  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) {
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

 private:
  enum : std::uint32_t { kFree, kHeld, kContended };
  static constexpr int kSpins = 100;
  alignas(64) std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace rrdma::nic
