// Operation: the base of every awaitable of this library. It lives in the caller's frame. A caller either
// awaits it, or starts it and polls done(). It completes once. The awaiting coroutine resumes from
// Context::poll, after all completions of that poll were read.
//
// Destruction, a deadline and a stop token withdraw an operation. The waiter is free at once; memory that the
// device still uses stays with the library until the device has finished with it.
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

// The base of all operations. Must not be moved once started.
class RRDMA_COMM_API Operation : private detail::Link, private detail::Timer {
 public:
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Starts the operation; co_await does this implicitly. REQUIRES: not started.
  void start();
  // Whether the result is available.
  [[nodiscard]] bool done() const { return phase_ >= Phase::kDone; }
  [[nodiscard]] bool started() const { return phase_ != Phase::kIdle; }

  bool await_ready() {
    if (phase_ == Phase::kIdle) start();
    return done();
  }
  void await_suspend(std::coroutine_handle<> awaiting) { continuation_ = awaiting; }

 protected:
  enum class Phase : std::uint8_t { kIdle, kWaiting, kDone, kTaken };

  Operation(detail::Ref<detail::Reactor> reactor, During during, Limit limit);
  // REQUIRES: neither operation has started.
  Operation(Operation&& other) noexcept;
  virtual ~Operation();

  // Starts the work. It calls complete() or fail() at once, or puts the operation into a list of waiters.
  virtual void begin() = 0;
  // Removes the operation from its list of waiters. A posted request continues without it.
  virtual void withdraw() noexcept = 0;
  // Creates an error for a code, with the peer's name.
  [[nodiscard]] virtual Error error_for(Code code, int detail) const;

  // Withdraws the operation if it still waits. The destructor of each final class calls this first.
  void abandon() noexcept {
    if (phase_ != Phase::kIdle) [[likely]]
      leave();
  }
  // Removes the operation from the list in which it waits.
  void leave_list() noexcept { unlink(); }
  void complete();
  void fail(Error error);
  void fail(Code code, int detail = 0) { fail(error_for(code, detail)); }
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] Error take_failure() { return std::move(*failure_); }
  [[nodiscard]] const detail::Ref<detail::Reactor>& reactor() const { return reactor_; }
  [[nodiscard]] const Limit& limit() const { return limit_; }
  [[nodiscard]] During during() const { return during_; }
  // Marks the result as taken. REQUIRES: done(), not taken before.
  void take_once() {
    if (phase_ != Phase::kDone) [[unlikely]]
      detail::broken_contract(done() ? "an operation was awaited twice: its result was already taken"
                                     : "the result of an operation that is not done");
    phase_ = Phase::kTaken;
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
  // Ends the wait after a deadline or a stop request. Runs in the context's thread.
  void give_up(Code code);

  detail::Ref<detail::Reactor> reactor_;
  std::coroutine_handle<> continuation_;
  detail::BatchBase* batch_ = nullptr;
  Operation* inbox_next_ = nullptr;  // protected by the inbox's lock
  bool in_inbox_ = false;            // protected by the inbox's lock
  Phase phase_ = Phase::kIdle;
  During during_;
  Limit limit_;
  std::optional<std::stop_callback<StopHook>> stop_hook_;
  std::optional<Error> failure_;
};

}  // namespace v0
}  // namespace rrdma::comm
