// Uring: many sends on many sockets in one system call. The sockets are registered once. Each send runs
// during the call and never waits, so nothing is in flight afterwards and the ring belongs to no thread.
// Sends after a failure are not attempted: order is preserved. If the kernel or a seccomp filter forbids
// io_uring, there is no Uring.
//
// Receiving uses plain calls. A receive that waits in a ring belongs to the thread that armed it. Here that
// would be the thread of the program that made progress last (docs/adr/0006).
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <span>

namespace rrdma::link {

class Uring {
 public:
  static constexpr unsigned kEntries = 64;

  // Registers these sockets. Null if io_uring is not allowed.
  [[nodiscard]] static std::unique_ptr<Uring> open(std::span<const int> sockets);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // Sends messages[i] on sockets[i], in this order. outcomes[i] becomes 0 or the errno; it is unchanged if
  // the send was not attempted. False if the ring is unusable. REQUIRES: at most kEntries, registered
  // sockets.
  [[nodiscard]] bool send(std::span<mmsghdr> messages, std::span<const int> sockets, std::span<int> outcomes);

 private:
  struct State;
  explicit Uring(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::link
