// Closes a descriptor that another process named, on a thread of its own. The close of such a file may wait
// for whoever serves it (a file of a FUSE server), and a lane must not wait for that.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstdint>

#include "base/owned_fd.h"

namespace rrdma {

// If no thread can be started, the descriptor stays open.
inline void close_elsewhere(OwnedFd fd) {
  if (!fd) return;
  constexpr auto close_one = [](void* number) -> void* {
    const OwnedFd last(static_cast<int>(reinterpret_cast<std::intptr_t>(number)));
    return nullptr;
  };
  const auto number = static_cast<std::intptr_t>(fd.release());
  // Signals belong to the program: block them on this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, close_one, reinterpret_cast<void*>(number)) == 0)
    pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace rrdma
