#include "preload/rdma_cm/channel.h"

#include <linux/futex.h>
#include <pthread.h>

#include <cerrno>
#include <climits>

#include "base/raw_syscall.h"

namespace rrdma::rdma_cm {

void Channel::push(PendingEvent event) {
  events_.push_back(std::move(event));
  const std::uint64_t one = 1;
  (void)!raw::write(fd_, &one, sizeof one);
  wake();
}

// Each event has one count, so this does not block.
void Channel::take_count() {
  std::uint64_t one = 0;
  (void)!raw::read(fd_, &one, sizeof one);
}

PendingEvent Channel::pop() {
  take_count();
  PendingEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

template <typename Condition>
std::vector<PendingEvent> Channel::take_if(Condition condition) {
  std::vector<PendingEvent> taken;
  std::deque<PendingEvent> kept;
  for (PendingEvent& event : events_) {
    if (condition(event)) {
      take_count();
      taken.push_back(std::move(event));
    } else {
      kept.push_back(std::move(event));
    }
  }
  events_.swap(kept);
  return taken;
}

std::vector<PendingEvent> Channel::take_all_of(const Identifier& id) {
  return take_if([&](const PendingEvent& event) { return event.id.get() == &id; });
}

std::vector<PendingEvent> Channel::take_all_of(const Membership& membership) {
  return take_if([&](const PendingEvent& event) { return event.membership.get() == &membership; });
}

std::vector<PendingEvent> Channel::take_all() {
  return take_if([](const PendingEvent&) { return true; });
}

void Channel::wake() {
  turn_.fetch_add(1);
  (void)::syscall(SYS_futex, &turn_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

int Channel::wait(std::uint32_t turn) {
  static_assert(sizeof turn_ == sizeof(std::uint32_t));
  // write() to the kernel's file may wait, and is a cancellation point.
  int before = 0;
  (void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  const long result = ::syscall(SYS_futex, &turn_, FUTEX_WAIT_PRIVATE, turn, nullptr, nullptr, 0);
  const int error = result < 0 ? errno : 0;
  (void)pthread_setcanceltype(before, nullptr);
  return error == EINTR ? EINTR : 0;
}

}  // namespace rrdma::rdma_cm
