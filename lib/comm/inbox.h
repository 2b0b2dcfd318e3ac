// Inbox: work from other threads for a context: calls to make, and operations whose stop was requested. It
// holds the only lock of this library. A context checks one flag in each turn and takes the lock only if the
// flag is set.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "lib/comm/owned_fd.h"
#include "rrdma/comm/operation.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class StopInbox {
 public:
  // Returns false, with errno set, if eventfd() fails.
  bool open();
  [[nodiscard]] int fd() const { return wake_.number(); }

  // Callable from any thread.
  void add(std::function<void()> call);
  void add(Operation* operation);
  void wake();

  // Callable from the context's thread.
  void remove(Operation* operation);
  [[nodiscard]] bool flagged() const { return flag_.load(std::memory_order_acquire); }
  // Makes the calls and gives up the operations. Additions meanwhile wait for the next drain.
  void drain();

 private:
  std::mutex mutex_;
  std::atomic<bool> flag_{false};
  std::vector<std::function<void()>> calls_;
  Operation* stopped_ = nullptr;
  OwnedFd wake_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
