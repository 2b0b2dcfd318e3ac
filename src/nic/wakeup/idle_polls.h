// IdlePolls: decides when a program that polls an empty completion queue yields its core. The peer may be a
// process of this host that a spinning poller would keep from answering. One object for each completion
// queue.
//
// Yielding costs least if the answer is near. It is not sufficient: some kernels let nothing else run for
// seconds on a core whose threads only yield to one another. Linux 6.18 with its autogroups starved a
// starting daemon, kernel threads and everything else. A program that has polled in vain for milliseconds, at
// once or in total, can sleep for 50 us.
//
// The duration of a yield shows what else runs on this core. If the core comes back within microseconds, the
// other thread is probably the one that will answer. Each empty poll delays the answer, so the next ones
// yield at once. A computing thread keeps the core for milliseconds, so yield to it as rarely as possible.
//
// Threads: any; two concurrent polls may be counted as one.
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
  // True now and then: ask pause_at() what to do. Reading the clock costs as much as several polls.
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
  // Call after a kYield. Between login sessions a kernel may need several yields before it switches, so one
  // without a switch means little.
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
  // True if the other thread on the core gives it back.
  [[nodiscard]] bool shares_core() const { return yields_left_.load(std::memory_order_relaxed) != 0; }

  static constexpr std::uint32_t kPollsBetweenClocks = 8;
  static constexpr std::uint32_t kPollsBeforeNap = 16'384;  // in a row; some milliseconds
  static constexpr std::uint32_t kPausesBeforeNap = 256;    // in total, kPatience apart
  static constexpr std::uint32_t kSharedPausesBeforeNap = 1024;
  static constexpr Duration kPatience = microseconds(10);
  // A yield without another thread takes 0.2 to 0.5 us; two switches and a little work take more than 2 us.
  static constexpr Duration kAlone = nanoseconds(1'200);
  static constexpr Duration kComputes = microseconds(200);
  static constexpr std::uint32_t kYieldsInVain = 16;

  std::atomic<std::uint32_t> polls_{0};  // consecutive empty polls
  std::atomic<std::int64_t> since_ns_{0};
  std::atomic<std::uint32_t> pauses_{0};
  std::atomic<std::uint32_t> yields_left_{0};  // until the core counts as our own
};

}  // namespace rrdma::nic
