// LaneLock: the lock of a lane, for short and usually uncontended critical sections that are often only
// tried. Locking is one atomic exchange, unlocking a plain store. A contender spins for about a microsecond
// and then sleeps in the kernel. The store may be reordered after the check for sleepers, which are then not
// woken: they check again after kSleepNs. This is rare, whereas an exchange would burden every unlock.
// Satisfies Lockable, so std::unique_lock works.
//
// The word names the thread that holds the lock. A signal handler that ends the program may have interrupted
// that thread. It must not wait for the lock then.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/instant.h"

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
           state_.compare_exchange_strong(expected, caller(), std::memory_order_acquire);
  }

  // For the end of the program. False: the caller itself holds the lock, or another thread held it for that
  // long.
  bool lock_at_end(Duration patience) {
    if (state_.load(std::memory_order_relaxed) == caller()) return false;
    for (std::int64_t slept_ns = 0; !spin(kSpins); slept_ns += kSleepNs) {
      if (slept_ns >= patience.ns) return false;
      waited_for_.store(true);
      sleep(kSleepNs);
    }
    return true;
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

  // For the lane's thread beside a program that calls continuously and does the thread's work itself. The
  // thread sleeps without asking to be woken. Otherwise each unlock would pay for a system call and a switch,
  // in vain if the program calls again at once. Its naps become longer. If both share a core, the holder is
  // hardly ever between two calls when the thread runs, and cannot get there while the thread spins.
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
  static constexpr std::uint32_t kFree = 0;
  // A number of the calling thread, never kFree. Two threads whose thread pointers are 256 GiB apart share
  // one, which lock_at_end() alone would notice.
  static std::uint32_t caller() {
    std::uintptr_t pointer = 0;
#if defined(__x86_64__)
    asm("mov %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
    asm("mrs %0, tpidr_el0" : "=r"(pointer));
#else
#error "which register holds the thread pointer?"
#endif
    return static_cast<std::uint32_t>(pointer >> 6) | 1;
  }
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
    const std::uint32_t holder = state_.load(std::memory_order_relaxed);
    if (holder == kFree) return false;
    return syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, holder, &moment, nullptr, 0) == 0;
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
