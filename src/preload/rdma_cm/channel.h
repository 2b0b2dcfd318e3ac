// Channel: one open /dev/infiniband/rdma_cm. Its descriptor is an eventfd of the program with one count for
// each pending event, so poll, epoll and O_NONBLOCK work natively. Reads of it never block. A waiter sleeps
// on a futex, which a signal interrupts or restarts as in the kernel.
//
// Threads: everything except wait() under the station's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "preload/rdma_cm/identifier.h"

namespace rrdma::rdma_cm {

class Channel {
 public:
  // Takes the descriptor's number; the program closes it.
  Channel(int fd, std::uint64_t inode) : fd_(fd), inode_(inode) {}

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t inode() const { return inode_; }
  [[nodiscard]] bool closed() const { return closed_; }
  // Waiters keep waiting, as on the kernel's file.
  void close() { closed_ = true; }

  void push(PendingEvent event);
  [[nodiscard]] bool empty() const { return events_.empty(); }
  // REQUIRES: !empty().
  [[nodiscard]] const PendingEvent& front() const { return events_.front(); }
  PendingEvent pop();
  // Removes and returns all events of the id, in order.
  [[nodiscard]] std::vector<PendingEvent> take_all_of(const Identifier& id);
  [[nodiscard]] std::vector<PendingEvent> take_all_of(const Membership& membership);
  [[nodiscard]] std::vector<PendingEvent> take_all();

  // The ticket for wait(). REQUIRES: the lock; read it before the events.
  [[nodiscard]] std::uint32_t turn() const { return turn_.load(); }
  // Sleeps until turn() differs from `turn`. Returns 0 or EINTR. A cancellation point. REQUIRES: not the
  // lock.
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
