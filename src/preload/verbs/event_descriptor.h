// EventDescriptor: the file descriptor of a queue of events: one count for each event, so that poll, epoll
// (level and edge), O_NONBLOCK and a blocking read behave as with the kernel's event files.
//
// The queue itself belongs to whoever owns the descriptor: add the event first, then raise(); wait(),
// then take the event. A waiter may find the queue empty (the event was withdrawn) and waits again.
#pragma once

#include "base/owned_fd.h"

namespace rrdma::verbs {

class EventDescriptor {
 public:
  // Invalid (and errno) on failure.
  static EventDescriptor create();

  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void raise();
  // Takes one count. Blocks unless the program has set O_NONBLOCK. False and errno (EAGAIN, EINTR) otherwise.
  [[nodiscard]] bool wait();
  // Takes one count back, for an event that was withdrawn; never blocks.
  void withdraw();

 private:
  OwnedFd fd_;
};

}  // namespace rrdma::verbs
