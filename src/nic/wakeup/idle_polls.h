// IdlePolls: when a program that polls in vain gives its core to whoever waits for one: the other end may be a process of this
// host, which a spinning poller would keep from answering. Of one completion queue.
//
// Yielding costs least where the answer is near. It is no good alone: between threads that only yield to one another some
// kernels let nothing else run on that core for seconds (seen with Linux 6.18 and its autogroups: a daemon that is to
// start, kernel threads, all). Who has polled for milliseconds in vain, at once or in all, can sleep for 50 us.
//
// How long a yield took tells who else is on this core. One that gives it back within microseconds is in all likelihood who is
// to answer: then every poll in vain keeps the answer waiting, and the next ones yield at once. One that computes keeps it for
// milliseconds, and the less often it gets it, the better.
//
// Threads: any; two that poll at a time may count one poll for two.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/instant.h"

namespace rrdma::nic {

class IdlePolls {
 public:
  enum class Pause : std::uint8_t { kNone, kYield, kNap };

  void note_busy() {
    if (polls_.load(std::memory_order_relaxed) != 0) polls_.store(0, std::memory_order_relaxed);
  }
  // True now and then: ask pause_at() what to do. To read the clock costs as much as several polls.
  [[nodiscard]] bool note_idle() {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
    polls_.store(polls, std::memory_order_relaxed);
    return shares_core() || polls % kPollsBetweenClocks == 0;
  }
  [[nodiscard]] Pause pause_at(Instant now) {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
    const bool shared = shares_core();
    const bool first = polls == kPollsBetweenClocks && !shared;
    if (!first && !shared && now.ns - since_ns_.load(std::memory_order_relaxed) < kPatience.ns)
      return Pause::kNone;
    since_ns_.store(now.ns, std::memory_order_relaxed);
    if (first) return Pause::kNone;
    const std::uint32_t pauses = pauses_.load(std::memory_order_relaxed) + 1;
    pauses_.store(pauses, std::memory_order_relaxed);
    const std::uint32_t most = shared ? kSharedPausesBeforeNap : kPausesBeforeNap;
    return polls < kPollsBeforeNap && pauses % most != 0 ? Pause::kYield : Pause::kNap;
  }
  // After a kYield. Between login sessions a kernel may need several before it switches, so one that does not tells little.
  void note_yield(Duration took) {
    const std::uint32_t left = yields_left_.load(std::memory_order_relaxed);
    if (took >= kComputes) {
      yields_left_.store(0, std::memory_order_relaxed);
    } else if (took > kAlone) {
      yields_left_.store(kYieldsInVain, std::memory_order_relaxed);
    } else if (left != 0) {
      yields_left_.store(left - 1, std::memory_order_relaxed);
    }
  }

 private:
  // With one that gives it back.
  [[nodiscard]] bool shares_core() const { return yields_left_.load(std::memory_order_relaxed) != 0; }

  static constexpr std::uint32_t kPollsBetweenClocks = 8;
  static constexpr std::uint32_t kPollsBeforeNap = 16'384;  // in a row; some milliseconds
  static constexpr std::uint32_t kPausesBeforeNap = 256;    // in all, kPatience apart
  static constexpr std::uint32_t kSharedPausesBeforeNap = 1024;
  static constexpr Duration kPatience = microseconds(10);
  // A yield of who is alone takes 0.2 to 0.5 us, two switches and a little work more than two.
  static constexpr Duration kAlone = nanoseconds(1'200);
  static constexpr Duration kComputes = microseconds(200);
  static constexpr std::uint32_t kYieldsInVain = 16;

  std::atomic<std::uint32_t> polls_{0};  // in a row that found nothing
  std::atomic<std::int64_t> since_ns_{0};
  std::atomic<std::uint32_t> pauses_{0};
  std::atomic<std::uint32_t> yields_left_{0};  // before the core counts as our own
};

}  // namespace rrdma::nic
