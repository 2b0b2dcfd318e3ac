// EventDescriptor: the file descriptor of an event queue. It has one count for each event, so that poll,
// epoll (level and edge), O_NONBLOCK and a blocking read behave as with the kernel's event files.
//
// The owner of the descriptor keeps the queue. It adds the event, then calls raise(); a reader calls wait(),
// then takes the event. A reader may find the queue empty (the event was withdrawn) and must wait again.
#pragma once

#include "base/owned_fd.h"

namespace rrdma::verbs {

class EventDescriptor {
 public:
  // Invalid (with errno) on failure.
  static EventDescriptor create();

  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void raise();
  // Takes one count. Blocks unless the program has set O_NONBLOCK. Returns false with errno (EAGAIN, EINTR)
  // otherwise.
  [[nodiscard]] bool wait();
  // Takes one count back, for an event that was withdrawn; never blocks.
  void withdraw();

 private:
  OwnedFd fd_;
};

}  // namespace rrdma::verbs
