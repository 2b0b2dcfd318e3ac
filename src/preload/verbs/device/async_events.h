// AsyncEvents: the asynchronous events of a context, in order. An event counts for its object from the time
// when the program takes it until the program acknowledges it; destroying the object waits for that.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <mutex>

#include "preload/verbs/event_descriptor.h"

namespace rrdma::verbs {

class AsyncEvents {
 public:
  // Invalid (with errno) if no descriptor is available.
  AsyncEvents() : descriptor_(EventDescriptor::create()) {}

  [[nodiscard]] bool valid() const { return descriptor_.valid(); }
  [[nodiscard]] int fd() const { return descriptor_.fd(); }
  void push(const ibv_async_event& event);
  // 0, or -1 and errno.
  int take(ibv_async_event& event);
  // Removes events of this object (a CQ, QP or SRQ) that the program has not taken.
  void withdraw(const void* object);

 private:
  EventDescriptor descriptor_;
  std::mutex mutex_;
  std::deque<ibv_async_event> waiting_;
};

// Waits until `completed` equals `reported`; both, and the lock, are fields of an ibv_cq, ibv_qp or ibv_srq.
void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& condition,
                               const std::uint32_t& completed, const std::uint32_t& reported);

}  // namespace rrdma::verbs
