#include "preload/verbs/event_descriptor.h"

#include <sys/eventfd.h>
#include <sys/uio.h>

#include <cstdint>

namespace rrdma::verbs {

EventDescriptor EventDescriptor::create() {
  EventDescriptor descriptor;
  descriptor.fd_ = above_standard(raw::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  return descriptor;
}

void EventDescriptor::raise() {
  const std::uint64_t one = 1;
  static_cast<void>(raw::write(fd_.get(), &one, sizeof one));
}

bool EventDescriptor::wait() {
  std::uint64_t count = 0;
  return raw::read(fd_.get(), &count, sizeof count) == sizeof count;
}

void EventDescriptor::withdraw() {
  std::uint64_t count = 0;
  iovec room{&count, sizeof count};
  const int saved = errno;
  // Offset -1: the file has none. A waiter may have taken the count first; then there is nothing to do.
  if (syscall(SYS_preadv2, fd_.get(), &room, 1, -1L, -1L, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP) {
    // The kernel lacks RWF_NOWAIT for this file: make the descriptor nonblocking for a moment.
    const int flags = raw::fcntl(fd_.get(), F_GETFL);
    raw::fcntl(fd_.get(), F_SETFL, static_cast<unsigned long>(flags | O_NONBLOCK));
    static_cast<void>(raw::read(fd_.get(), &count, sizeof count));
    raw::fcntl(fd_.get(), F_SETFL, static_cast<unsigned long>(flags));
  }
  errno = saved;
}

}  // namespace rrdma::verbs
