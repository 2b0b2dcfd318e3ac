// Task<T>: a coroutine that starts when awaited and belongs to its holder. Destroying a Task withdraws the
// operation that it awaits; memory that the device still uses stays with the library. Frames come from a free
// list of the thread. The awaiting coroutine is resumed by symmetric transfer. awaiting.h makes `co_await` in
// conditions safe with GCC 12.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "rrdma/comm/awaiting.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

template <typename T = void>
class Task;

namespace detail {

// Memory for coroutine frames, from this thread's free lists by size class.
[[nodiscard]] RRDMA_COMM_API void* allocate_frame(std::size_t size);
RRDMA_COMM_API void release_frame(void* frame, std::size_t size) noexcept;

class PromiseBase {
 public:
  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { release_frame(frame, size); }

  void unhandled_exception() noexcept { exception_ = std::current_exception(); }

  // Marks the task as started. `continuation` resumes at its end.
  void start(std::coroutine_handle<> continuation) noexcept {
    if (phase_ != Phase::kNew) [[unlikely]]
      broken_contract("a Task was started or awaited twice");
    phase_ = Phase::kStarted;
    continuation_ = continuation;
  }
  [[nodiscard]] std::coroutine_handle<> continuation() const noexcept { return continuation_; }
  [[nodiscard]] bool failed() const noexcept { return exception_ != nullptr; }

 protected:
  // Marks the value as taken. Throws the exception that left the body, if any.
  void take_once() {
    if (phase_ == Phase::kTaken) [[unlikely]]
      broken_contract("a Task was awaited twice: its value was already taken");
    phase_ = Phase::kTaken;
    if (exception_) [[unlikely]]
      std::rethrow_exception(std::move(exception_));
  }

 private:
  enum class Phase : unsigned char { kNew, kStarted, kTaken };
  std::coroutine_handle<> continuation_ = std::noop_coroutine();
  std::exception_ptr exception_;
  Phase phase_ = Phase::kNew;
};

template <typename T>
class Promise : public PromiseBase, public Awaiting<Promise<T>> {
 public:
  Task<T> get_return_object() noexcept;
  template <typename U>
  requires std::is_constructible_v<T, U&&>
  void return_value(U&& value) { value_.emplace(std::forward<U>(value)); }
  T take() {
    take_once();
    return std::move(*value_);
  }

 private:
  friend class FrameRepair;
  friend Awaiting<Promise>;
  std::optional<T> value_;
  // The last member: programs have the offsets of the others compiled in.
  FrameRepair repair_;
};

template <>
class Promise<void> : public PromiseBase, public Awaiting<Promise<void>> {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() { take_once(); }

 private:
  friend class FrameRepair;
  friend Awaiting<Promise>;
  FrameRepair repair_;
};

}  // namespace detail

// A coroutine that runs when awaited or started, and is destroyed with its owner. Move-only.
template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Value = T;

  Task() = default;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { destroy(); }

  [[nodiscard]] bool valid() const { return handle_ != nullptr; }
  [[nodiscard]] bool done() const { return handle_ != nullptr && handle_.done(); }

  // Runs the task until it first suspends. `continuation` resumes when the task is done. REQUIRES: valid, not
  // started.
  void start(std::coroutine_handle<> continuation) {
    checked().promise().start(continuation);
    handle_.resume();
  }
  // Awaits the end without taking the value or the exception.
  auto finished() noexcept { return Finished(checked()); }
  // Whether an exception left the task. REQUIRES: done(), not taken.
  [[nodiscard]] bool failed() const { return checked().promise().failed(); }
  // REQUIRES: done(); called only once.
  T take() { return checked().promise().take(); }

  auto operator co_await() && noexcept { return Awaiter(checked()); }
  auto operator co_await() & noexcept { return Awaiter(checked()); }

 private:
  class Finished {
   public:
    explicit Finished(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    bool await_ready() const noexcept { return handle_.done(); }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
      handle_.promise().start(awaiting);
      return handle_;
    }
    void await_resume() noexcept {}

   protected:
    std::coroutine_handle<promise_type> handle_;
  };
  class Awaiter : public Finished {
   public:
    using Finished::Finished;
    T await_resume() { return this->handle_.promise().take(); }
  };

  [[nodiscard]] std::coroutine_handle<promise_type> checked() const noexcept {
    if (handle_ == nullptr) [[unlikely]]
      detail::broken_contract("an operation on an empty Task");
    return handle_;
  }
  void destroy() {
    if (handle_ != nullptr) std::exchange(handle_, nullptr).destroy();
  }
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
template <typename T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

template <typename A>
struct IsTask : std::false_type {};
template <typename T>
struct IsTask<Task<T>> : std::true_type {};

}  // namespace detail

// Wraps an awaitable of this library in a Task. REQUIRES: the awaitable has not started.
template <typename A>
auto as_task(A awaitable) -> Task<decltype(awaitable.await_resume())> {
  co_return co_await awaitable;
}
// Returns the Task itself.
template <typename T>
Task<T> as_task(Task<T> task) {
  return task;
}

}  // namespace v0
}  // namespace rrdma::comm
