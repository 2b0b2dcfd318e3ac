// Channel: one open /dev/infiniband/rdma_cm. Its descriptor is an eventfd of the program with one count for
// each pending event, so that poll, epoll and O_NONBLOCK work natively; nobody ever blocks in reading it.
// Who waits for an event sleeps on a futex, which a signal interrupts or restarts as it would the kernel.
//
// Threads: everything but wait() under the station's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "preload/rdma_cm/identifier.h"

namespace rrdma::rdma_cm {

class Channel {
 public:
  // Takes the descriptor's number; who closes it is the program.
  Channel(int fd, std::uint64_t inode) : fd_(fd), inode_(inode) {}

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t inode() const { return inode_; }
  [[nodiscard]] bool closed() const { return closed_; }
  // Who waits for an event goes on waiting, as on the kernel's file.
  void close() { closed_ = true; }

  void push(PendingEvent event);
  [[nodiscard]] bool empty() const { return events_.empty(); }
  // REQUIRES: !empty().
  [[nodiscard]] const PendingEvent& front() const { return events_.front(); }
  PendingEvent pop();
  // Takes out all events of the id, in their order.
  [[nodiscard]] std::vector<PendingEvent> take_all_of(const Identifier& id);
  [[nodiscard]] std::vector<PendingEvent> take_all_of(const Membership& membership);
  [[nodiscard]] std::vector<PendingEvent> take_all();

  // What wait() returns for: read it under the lock, before looking at the events.
  [[nodiscard]] std::uint32_t turn() const { return turn_.load(); }
  // Sleeps until the turn is another one. 0, or EINTR. A cancellation point. REQUIRES: not the lock.
  [[nodiscard]] int wait(std::uint32_t turn);

 private:
  template <typename Condition>
  std::vector<PendingEvent> take_if(Condition condition);
  void take_count();
  void wake();

  const int fd_;
  const std::uint64_t inode_;
  bool closed_ = false;
  std::deque<PendingEvent> events_;
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace rrdma::rdma_cm
