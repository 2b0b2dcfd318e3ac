// The daemon's event loop: one thread, one epoll, handlers by descriptor. A handler may watch and forget
// any descriptor, its own included; an event that was fetched before its descriptor was forgotten is
// not delivered.
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
  // Before the descriptor is closed. One that is not watched is no mistake.
  void forget(int fd);

  // Waits for events until the deadline at the latest, and handles them.
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
