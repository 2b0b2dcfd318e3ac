// LaneThread: the thread of a lane, and its sleeper on epoll. WakeUp decides when it sleeps and for what it
// wakes.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "nic/wakeup/wakeup.h"

namespace rrdma::nic {

// Descriptors may be added at any time.
//
// A socket in an epoll set costs the sender of each packet 0.14 us on the loopback interface, even if no
// thread waits. So sockets are in the set only while the thread sleeps for them.
class EpollSleeper final : public Sleeper {
 public:
  EpollSleeper();
  // False if a descriptor could not be opened or watched (the limit of the program, or of its user's
  // watches).
  [[nodiscard]] bool valid() const { return valid_; }

  void add_link(int fd);
  void add_control(int fd);
  // Its arrivals are reported with those of the links. It is watched beside a program that polls the links,
  // too.
  void add_feed(int fd);
  // The sockets of links, instead of those set before. Call it with none before any of them is closed.
  void set_sockets(std::span<const int> sockets);

  [[nodiscard]] Instant now() override;
  Woken sleep(Watch watch, Instant deadline) override;
  void ring() override;
  bool take_ring() override;
  void yield() override;

 private:
  static constexpr std::size_t kEventsMax = 16;
  [[nodiscard]] int wait(int epoll, const timespec& timeout);
  [[nodiscard]] int nap(const timespec& timeout);
  void add_sockets();
  void remove_sockets();
  void watch_sockets(bool wanted);
  [[nodiscard]] std::size_t add_unheard(std::size_t links);

  OwnedFd everything_;  // links, control, ring
  OwnedFd no_links_;    // control, ring
  OwnedFd ring_;
  std::array<epoll_event, kEventsMax> events_;
  std::array<int, kEventsMax> links_;
  std::mutex sockets_mutex_;  // for the two members below
  std::vector<int> sockets_;
  bool watched_ = true;
  std::atomic<bool> deaf_{false};  // not all sockets could be added
  bool valid_ = false;
  bool has_pwait2_ = true;  // until the kernel refuses it
};

// True if the machine has only one core: see WakeUp.
[[nodiscard]] bool has_one_core();

class LaneThread {
 public:
  explicit LaneThread(WakeUp& wakeup) : wakeup_(wakeup) {}
  ~LaneThread() { stop(); }
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  // False if the program may start no thread (RLIMIT_NPROC, a cgroup, no memory for its stack).
  [[nodiscard]] bool start(Duty& duty);
  // Returns when the thread has ended.
  void stop();

 private:
  WakeUp& wakeup_;
  std::thread thread_;
};

}  // namespace rrdma::nic
