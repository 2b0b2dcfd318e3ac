// Disposal: closes descriptors that came from strangers, off the daemon's loop. The last close of a
// descriptor may take as long as its owner wants (a TCP socket with SO_LINGER, a file of a FUSE server), and
// so may freeing its memory.
//
// Threads start on demand. One user blocks at most one thread. If a user has too many descriptors here, the
// daemon stops reading its messages.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/owned_fd.h"

namespace rrdma::daemon {

class Disposal {
 public:
  Disposal();
  // Does not wait for threads that are blocked in a close.
  ~Disposal();
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  void take(uid_t account, std::vector<OwnedFd> fds);
  // Takes anything that owns descriptors or memory of a stranger, and destroys it on another thread.
  template <typename T>
  void take(uid_t account, std::unique_ptr<T> owner, std::size_t descriptors) {
    put(account, {{}, std::shared_ptr<void>(std::move(owner)), descriptors});
  }
  // The number of descriptors of this user that are not closed yet.
  [[nodiscard]] std::size_t waiting(uid_t account) const;
  // Of all users.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Item {
    std::vector<OwnedFd> fds;
    std::shared_ptr<void> owner;
    std::size_t descriptors = 0;
  };
  struct State;
  void put(uid_t account, Item item);
  static void work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

// Makes the close of a socket return at once, if possible.
void forbid_linger(int fd);

}  // namespace rrdma::daemon
