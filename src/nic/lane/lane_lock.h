// LaneLock: the lock of a lane, for short and usually uncontended critical sections that are often only tried.
// Locking is one atomic exchange, unlocking a plain store. A contender spins for about a microsecond and then sleeps
// in the kernel. The store may be reordered after the check for sleepers, which are then not woken: they check again
// after kSleepNs. This is rare, whereas an exchange would burden every unlock. Satisfies Lockable, so
// std::unique_lock works.
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
      // The thread that gets the lock leaves the flag set: other waiters may be asleep.
      waited_for_.store(true);
      if (try_lock()) return;
      sleep(kSleepNs);
    }
  }

  // For the lane's thread beside a program that calls continuously and does the thread's work itself. The thread
  // sleeps without asking to be woken. Otherwise each unlock would pay for a system call and a switch, in vain if the
  // program calls again at once. Its naps become longer. If both share a core, the holder is hardly ever between two
  // calls when the thread runs, and cannot get there while the thread spins.
  void lock_politely() {
    if (spin(kSpins)) return;
    napping_.store(true, std::memory_order_relaxed);
    long nap_ns = kNapNs;
    do {
      const bool hurried = sleep(nap_ns);
      nap_ns = hurried ? kNapNs : nap_ns < kNapMaxNs ? nap_ns * 2 : kNapMaxNs;
    } while (!spin(kSpins));
    napping_.store(false, std::memory_order_relaxed);
  }

  // Ends the nap of a polite waiter: the program will not call for a while. Any thread.
  void hurry() {
    if (napping_.load(std::memory_order_relaxed)) [[unlikely]]
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
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
  // True if a wake-up ended the sleep.
  bool sleep(long ns) {
    const timespec moment{.tv_sec = 0, .tv_nsec = ns};
    return syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kHeld, &moment, nullptr, 0) == 0;
  }

  static constexpr int kSpins = 100;
  static constexpr long kSleepNs = 200'000;
  static constexpr long kNapNs = 50'000;
  static constexpr long kNapMaxNs = 800'000;
  alignas(64) std::atomic<std::uint32_t> state_{kFree};
  std::atomic<bool> waited_for_{false};
  std::atomic<bool> napping_{false};
};

}  // namespace rrdma::nic
