#include "lib/comm/inbox.h"

#include <sys/eventfd.h>

#include <utility>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

bool StopInbox::open() {
  wake_ = OwnedFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return static_cast<bool>(wake_);
}

void StopInbox::wake() {
  const std::uint64_t one = 1;
  // A failed write means the counter is at its maximum, so the reader wakes up anyway.
  [[maybe_unused]] const auto written = ::write(wake_.number(), &one, sizeof(one));
}

void StopInbox::add(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    flag_.store(true, std::memory_order_release);
  }
  wake();
}

void StopInbox::add(Operation* operation) {
  {
    const std::lock_guard lock(mutex_);
    if (operation->in_inbox_) return;
    operation->in_inbox_ = true;
    operation->inbox_next_ = std::exchange(stopped_, operation);
    flag_.store(true, std::memory_order_release);
  }
  wake();
}

void StopInbox::remove(Operation* operation) {
  const std::lock_guard lock(mutex_);
  if (!operation->in_inbox_) return;
  Operation** place = &stopped_;
  while (*place != operation) place = &(*place)->inbox_next_;
  *place = operation->inbox_next_;
  operation->in_inbox_ = false;
}

void StopInbox::drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto octets = ::read(wake_.number(), &count, sizeof(count));
  std::vector<std::function<void()>> calls;
  for (;;) {
    Operation* operation = nullptr;
    {
      const std::lock_guard lock(mutex_);
      flag_.store(false, std::memory_order_release);
      if (stopped_ != nullptr) {
        operation = std::exchange(stopped_, stopped_->inbox_next_);
        operation->in_inbox_ = false;
      } else {
        calls.swap(calls_);
      }
    }
    if (operation == nullptr) break;
    operation->give_up(Code::kCancelled);
  }
  for (auto& call : calls) call();
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
