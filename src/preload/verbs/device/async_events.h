// Asynchronous events of a context, in the order in which they happened. An event counts for its object
// from the moment that the program has taken it until the program has acknowledged it: destroying the
// object waits for that.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <mutex>

#include "preload/verbs/event_descriptor.h"

namespace rrdma::verbs {

class AsyncEvents {
 public:
  // Invalid (and errno) if no descriptor is to be had.
  AsyncEvents() : descriptor_(EventDescriptor::create()) {}

  [[nodiscard]] bool valid() const { return descriptor_.valid(); }
  [[nodiscard]] int fd() const { return descriptor_.fd(); }
  void push(const ibv_async_event& event);
  // 0, or -1 and errno.
  int take(ibv_async_event& event);
  // Forgets events of this object (a CQ, QP or SRQ) that nobody has taken.
  void withdraw(const void* object);

 private:
  EventDescriptor descriptor_;
  std::mutex mutex_;
  std::deque<ibv_async_event> waiting_;
};

// Waits until `completed` equals `reported`; the fields of an ibv_cq, ibv_qp or ibv_srq and its lock.
void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& condition,
                               const std::uint32_t& completed, const std::uint32_t& reported);

}  // namespace rrdma::verbs
