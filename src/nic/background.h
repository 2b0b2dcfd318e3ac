// Background: the thread that makes progress when the program does not: for passive targets of READ and
// WRITE, for programs that sleep in a completion channel, and for timers (DESIGN D5).
//
// It sleeps on the links' descriptors. While the program polls by itself, being woken for every packet
// only takes the core away from the program: after several wake-ups in a row between which the program
// posted or polled, it stands by, which means that it looks at the clock instead of the sockets. It comes back once the
// program hardly polls any more, goes to sleep, or has left something lying on a link; then it waits a while,
// each time a longer one, before it tries to stand by again. Until it comes back, timers are the program's, too.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "base/problem.h"

namespace rrdma::nic {

// What the thread serves. All calls come from the thread, without the lane's lock.
class BackgroundWork {
 public:
  virtual ~BackgroundWork() = default;
  // Makes progress until nothing is left to do; true if anything was done. `deadline` is when to call again.
  virtual bool work(Instant& deadline) = 0;
  // Asks the links to ring when something arrives. False: something is there already, work first.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  // A descriptor other than a link's is readable (the daemon's connection).
  virtual void handle_control() = 0;
  // The kernel has told of an arrival at a link's descriptor, before work().
  virtual void note_arrival(int descriptor) = 0;
  // Now and then while the thread stands by. True if the program is in one of its calls.
  virtual bool tick() = 0;
  // It no longer stands by.
  virtual void resume() = 0;
};

class Background {
 public:
  // Link descriptors may be added before and after start().
  Background();
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void add_link_descriptor(int fd);
  void add_control_descriptor(int fd);
  void start(BackgroundWork& work);
  void stop();

  // The program has posted or polled: hot, called each time.
  void note_call() { calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  // The program has looked at the links and the timers.
  void note_look(Instant now) { last_look_ns_.store(now.ns, std::memory_order_relaxed); }
  // Whether the machine has one core only. There a program that polls keeps whoever could answer it from running, and
  // the wake-ups of this thread are what changes that: it never stands by.
  [[nodiscard]] bool one_core() const { return one_core_; }
  [[nodiscard]] bool standing_by() const { return standing_by_.load(std::memory_order_relaxed); }
  // The program is about to sleep, or there is an earlier deadline: look again now.
  void kick();

 private:
  void run(BackgroundWork& work);
  enum class End { kCalledAway, kNeeded };
  [[nodiscard]] End watch_program(BackgroundWork& work);
  void stand_by(BackgroundWork& work);
  void sleep_on_links(BackgroundWork& work, Instant deadline);
  // Fills events_ with what came until then; their number.
  int wait(int epoll, Instant deadline);
  [[nodiscard]] int wait_for_events(int epoll, const timespec& timeout);

  OwnedFd epoll_all_;    // links, control, wake
  OwnedFd epoll_quiet_;  // control, wake
  OwnedFd wake_;
  std::array<epoll_event, 16> events_;
  const bool one_core_;
  bool has_pwait2_ = true;  // until the kernel says otherwise
  bool control_ready_ = true;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::int64_t> last_look_ns_{0};
  std::atomic<bool> standing_by_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> kicked_{false};
  static constexpr Duration kPauseMin = milliseconds(1);
  Duration pause_ = kPauseMin;  // after standing by in vain
  Instant not_before_{};        // when to try next
  std::thread thread_;
};

}  // namespace rrdma::nic
