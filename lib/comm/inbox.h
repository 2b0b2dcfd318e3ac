// Inbox: what other threads leave for a context: calls to make, and operations whose stop was requested. The only place of this
// library with a lock; a context looks at one flag in each turn and takes the lock only when it is set.
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
  // False: the system gave no eventfd (errno).
  bool open();
  [[nodiscard]] int fd() const { return wake_.number(); }

  // Any thread.
  void add(std::function<void()> call);
  void add(Operation* operation);
  void wake();

  // The context's thread.
  void remove(Operation* operation);
  [[nodiscard]] bool flagged() const { return flag_.load(std::memory_order_acquire); }
  // Makes the calls and gives up the operations; what arrives meanwhile waits for the next time.
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
