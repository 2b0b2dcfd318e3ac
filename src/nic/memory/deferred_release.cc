#include "nic/memory/deferred_release.h"

#include <pthread.h>
#include <signal.h>

#include <deque>
#include <mutex>
#include <utility>

namespace rrdma::nic {
namespace {

struct Releases {
  std::mutex mutex;
  std::deque<std::function<void()>> calls;
  bool has_thread = false;
};

// Never destroyed: the thread may outlive main().
Releases& releases() {
  static Releases* const one = new Releases;
  return *one;
}

void* run_releases(void*) {
  Releases& all = releases();
  for (;;) {
    std::function<void()> call;
    {
      const std::lock_guard lock(all.mutex);
      if (all.calls.empty()) {
        all.has_thread = false;
        return nullptr;
      }
      call = std::move(all.calls.front());
      all.calls.pop_front();
    }
    call();
  }
}

// Signals belong to the program: block them on this thread.
bool start_thread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run_releases, nullptr) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace

void release_later(std::function<void()> call) {
  Releases& all = releases();
  bool starts = false;
  {
    const std::lock_guard lock(all.mutex);
    all.calls.push_back(std::move(call));
    starts = !std::exchange(all.has_thread, true);
  }
  if (starts && !start_thread()) run_releases(nullptr);
}

}  // namespace rrdma::nic
