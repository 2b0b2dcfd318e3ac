// Uring: many sends on many sockets by one system call. The sockets are registered once; each send is
// tried while the call runs and never waits, so that nothing is in flight afterwards and the ring belongs
// to no thread. What follows a failure is not tried: order is kept. Where the kernel or a seccomp filter
// forbids io_uring there is none.
//
// Receiving stays with plain calls: a receive that waits in a ring belongs to the thread that armed it,
// which here is whichever thread of the program made progress last (docs/adr/0006).
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <span>

namespace rrdma::link {

class Uring {
 public:
  static constexpr unsigned kEntries = 64;

  // Registers these sockets. Null where it is not allowed.
  [[nodiscard]] static std::unique_ptr<Uring> open(std::span<const int> sockets);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // Sends messages[i] on sockets[i], in this order; outcomes[i] becomes 0 or the errno, and stays as
  // it was for what was not tried. False: the ring is unusable. REQUIRES: at most kEntries, registered sockets.
  [[nodiscard]] bool send(std::span<mmsghdr> messages, std::span<const int> sockets, std::span<int> outcomes);

 private:
  struct State;
  explicit Uring(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::link
