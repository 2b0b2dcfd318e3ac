// Operation: what every awaitable of this library has in common. It is an object in the caller's frame: awaiting it is one
// way to use it, starting it and asking whether it is done while polling is another. It completes once; the
// coroutine that awaits it is resumed from Context::poll, after all completions of that poll were read.
//
// Destroying an operation, a deadline and a stop token all withdraw it: the waiter is free at once, and what a device
// still uses stays with the library until the device has finished with it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "rrdma/comm/error.h"
#include "rrdma/comm/limit.h"
#include "rrdma/comm/list.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/timer.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

namespace detail {
class Reactor;
class StopInbox;
class BatchBase;
class EndpointState;
class DatagramState;
}  // namespace detail

// The base of everything that can be awaited, polled and given up. Not moved once begun.
class RRDMA_COMM_API Operation : private detail::Link, private detail::Timer {
 public:
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Begins it. REQUIRES: not begun. Awaiting does this by itself.
  void start();
  // Whether its result can be taken.
  [[nodiscard]] bool done() const { return phase_ == Phase::kDone; }
  [[nodiscard]] bool started() const { return phase_ != Phase::kIdle; }

  bool await_ready() {
    if (phase_ == Phase::kIdle) start();
    return done();
  }
  void await_suspend(std::coroutine_handle<> awaiting) { continuation_ = awaiting; }

 protected:
  enum class Phase : std::uint8_t { kIdle, kWaiting, kDone };

  Operation(detail::Ref<detail::Reactor> reactor, During during, Limit limit);
  // REQUIRES: neither was begun.
  Operation(Operation&& other) noexcept;
  virtual ~Operation();

  // Begins the work: either it is complete()d or fail()ed at once, or it waits somewhere.
  virtual void begin() = 0;
  // Takes it from where it waits. Called when it is given up; what was posted goes on without it.
  virtual void withdraw() noexcept = 0;
  // The error for a code, naming the peer.
  [[nodiscard]] virtual Error error_for(Code code, int detail) const;

  // A destructor of a final class calls this first: gives the operation up if it still waits.
  void abandon() noexcept {
    if (phase_ != Phase::kIdle) [[likely]]
      leave();
  }
  // Takes it out of the list that it waits in.
  void leave_list() noexcept { unlink(); }
  void complete();
  void fail(Error error);
  void fail(Code code, int detail = 0) { fail(error_for(code, detail)); }
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] Error take_failure() { return std::move(*failure_); }
  [[nodiscard]] const detail::Ref<detail::Reactor>& reactor() const { return reactor_; }
  [[nodiscard]] const Limit& limit() const { return limit_; }
  [[nodiscard]] During during() const { return during_; }
  // REQUIRES: done().
  void require_done() const {
    if (!done()) [[unlikely]]
      detail::broken_contract("the result of an operation that is not done");
  }

 private:
  friend class detail::Reactor;
  friend class detail::StopInbox;
  friend class detail::BatchBase;
  friend class detail::EndpointState;
  friend class detail::DatagramState;
  template <typename T>
  friend class detail::List;

  struct StopHook {
    Operation* operation;
    void operator()() const noexcept;
  };

  void leave() noexcept;
  void watch_limit();
  void expire() override { give_up(Code::kDeadline); }
  // A deadline passed or a stop was requested, in the context's own thread.
  void give_up(Code code);

  detail::Ref<detail::Reactor> reactor_;
  std::coroutine_handle<> continuation_;
  detail::BatchBase* batch_ = nullptr;
  Operation* inbox_next_ = nullptr;  // under the inbox' lock
  bool in_inbox_ = false;            // under the inbox' lock
  Phase phase_ = Phase::kIdle;
  During during_;
  Limit limit_;
  std::optional<std::stop_callback<StopHook>> stop_hook_;
  std::optional<Error> failure_;
};

}  // namespace v0
}  // namespace rrdma::comm
