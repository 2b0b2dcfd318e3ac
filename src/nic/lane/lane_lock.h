// LaneLock: the lock of a lane. Short critical sections, usually uncontended, often tried: one atomic
// exchange to take it, a plain store to give it back; a contender spins for about a microsecond and then
// sleeps in the kernel. The store may pass the look for sleepers, who then are not woken: they look again by
// themselves after kSleepNs, which is rare enough to cost nothing, while an exchange costs every unlock.
// Satisfies Lockable, so std::unique_lock works.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
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
    if (spin(kSpins)) return;
    for (;;) {
      // Left behind by whoever gets the lock here: others may sleep, too.
      waited_for_.store(true);
      if (try_lock()) return;
      sleep(kSleepNs);
    }
  }

  // For the lane's thread beside a program that calls all the time, and does itself what the thread came for. It sleeps
  // without asking to be woken: each unlock of the program would pay a system call and a switch for it, and in vain where
  // the program is back at once.
  void lock_politely() {
    while (!spin(kSpins)) sleep(kNapNs);
  }

  void unlock() {
    state_.store(kFree, std::memory_order_release);
    if (waited_for_.load(std::memory_order_relaxed)) [[unlikely]] {
      waited_for_.store(false, std::memory_order_relaxed);
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

 private:
  enum : std::uint32_t { kFree, kHeld };
  bool spin(int tries) {
    for (; tries > 0; --tries) {
      if (try_lock()) return true;
      cpu_relax();
    }
    return false;
  }
  void sleep(long ns) {
    const timespec moment{.tv_sec = 0, .tv_nsec = ns};
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kHeld, &moment, nullptr, 0);
  }

  static constexpr int kSpins = 100;
  static constexpr long kSleepNs = 200'000;
  static constexpr long kNapNs = 50'000;
  alignas(64) std::atomic<std::uint32_t> state_{kFree};
  std::atomic<bool> waited_for_{false};
};

}  // namespace rrdma::nic
