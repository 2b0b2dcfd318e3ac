// The daemon's event loop: one thread, one epoll, handlers by descriptor. A handler may watch and forget any
// descriptor, including its own. The loop drops an event if its descriptor was forgotten after the event was
// fetched.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "base/instant.h"
#include "base/owned_fd.h"

namespace rrdma::daemon {

class EventLoop {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  EventLoop();

  // The loop does not own the descriptor. REQUIRES: it is not watched already.
  void watch(int fd, std::uint32_t events, Handler handler);
  void change(int fd, std::uint32_t events);
  // Call before closing the descriptor. An unwatched descriptor is permitted.
  void forget(int fd);

  // Waits for events, at most until the deadline, and handles them.
  void run_once(Instant deadline);

  [[nodiscard]] static Instant now();

 private:
  struct Watch {
    std::uint32_t generation;
    Handler handler;
  };
  OwnedFd epoll_;
  std::map<int, Watch> watches_;
  std::uint32_t last_generation_ = 0;
};

}  // namespace rrdma::daemon
