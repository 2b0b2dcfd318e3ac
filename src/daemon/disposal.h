// Disposal: closes descriptors that came from strangers, off the daemon's loop. The last close of a descriptor may take
// as long as its owner wants (a TCP socket with SO_LINGER, a file of a FUSE server), and so may freeing its memory.
//
// Threads begin as they are needed. One user keeps at most one of them waiting, and has at most so many descriptors here
// before the daemon stops reading its messages.
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
  // Threads that wait in a close are left behind.
  ~Disposal();
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  void take(uid_t account, std::vector<OwnedFd> fds);
  // Anything that owns descriptors or memory of a stranger; destroyed on another thread.
  template <typename T>
  void take(uid_t account, std::unique_ptr<T> owner, std::size_t descriptors) {
    put(account, {{}, std::shared_ptr<void>(std::move(owner)), descriptors});
  }
  // Descriptors of this user that are not closed yet.
  [[nodiscard]] std::size_t waiting(uid_t account) const;

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

// Makes the close of a socket return at once, where that is possible.
void forbid_linger(int fd);

}  // namespace rrdma::daemon
