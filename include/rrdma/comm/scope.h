// Concurrency: when_all, when_any, and Scope, which owns tasks that run beside its owner. Destroying the
// owner cancels its tasks: destroying a task withdraws the operation that it awaits. The first exception that
// leaves a task cancels its siblings and reaches the owner.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rrdma/comm/error.h"
#include "rrdma/comm/list.h"
#include "rrdma/comm/task.h"

namespace rrdma::comm {
inline namespace v0 {

namespace detail {

// A coroutine that waits for the end of the current turn.
struct Wake : Link {
  std::coroutine_handle<> waiter;
};
// Resumes the waiter from the next poll of a context of this thread, when no other coroutine runs. REQUIRES:
// the wake is in no list.
RRDMA_COMM_API void wake_later(Wake& wake) noexcept;
// Prints the exception and aborts the program. Called if an exception would be lost.
[[noreturn]] RRDMA_COMM_API void exception_lost(const std::exception_ptr& exception) noexcept;

// Resumes a coroutine when enough tasks have ended, or when one of them has failed.
class Latch {
 public:
  explicit Latch(std::size_t count) : left_(count) {}
  // The next task to arrive opens the latch.
  void open_next() { left_ = 1; }
  std::coroutine_handle<> arrive() {
    if (left_ == 0 || --left_ != 0 || !waiter_) return std::noop_coroutine();
    return std::exchange(waiter_, nullptr);
  }
  [[nodiscard]] bool open() const { return left_ == 0; }
  auto operator co_await() noexcept { return Awaiter(this); }

 private:
  class Awaiter {
   public:
    explicit Awaiter(Latch* latch) : latch_(latch) {}
    bool await_ready() const noexcept { return latch_->open(); }
    void await_suspend(std::coroutine_handle<> waiter) noexcept { latch_->waiter_ = waiter; }
    void await_resume() const noexcept {}

   private:
    Latch* latch_;
  };
  std::size_t left_;
  std::coroutine_handle<> waiter_;
};

// A coroutine that runs one task and then arrives at a latch.
class Driver {
 public:
  class promise_type {
   public:
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { release_frame(frame, size); }
    template <typename T>
    promise_type(Task<T>&, Latch& latch) : latch_(&latch) {}
    Driver get_return_object() noexcept {
      return Driver(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().latch_->arrive();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }

   private:
    Latch* latch_;
  };

  explicit Driver(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Driver(Driver&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Driver& operator=(Driver&&) = delete;
  ~Driver() {
    if (handle_) handle_.destroy();
  }
  void start() { handle_.resume(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <typename T>
Driver drive(Task<T>& task, Latch& latch) {
  co_await task.finished();
  if (task.failed()) latch.open_next();
}

template <typename T>
using Held = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename T>
Held<T> take_held(Task<T>& task) {
  if constexpr (std::is_void_v<T>) {
    task.take();
    return {};
  } else {
    return task.take();
  }
}

template <typename T>
void rethrow_failure(Task<T>& task) {
  if (task.done() && task.failed()) static_cast<void>(take_held(task));
}

template <typename A>
using ValueOf = typename decltype(as_task(std::declval<A>()))::Value;

// A driver for each of several tasks.
template <typename... T>
std::array<Driver, sizeof...(T)> drive_all(std::tuple<Task<T>...>& tasks, Latch& latch) {
  return std::apply(
      [&latch](Task<T>&... task) { return std::array<Driver, sizeof...(T)>{drive(task, latch)...}; }, tasks);
}
// Starts them until the latch opens.
template <typename Drivers>
void start_all(Drivers& drivers, const Latch& latch) {
  for (Driver& driver : drivers) {
    if (!latch.open()) driver.start();
  }
}

// Below, the tasks are moved out of the parameters, which live as long as the frame: a task must not
// outlive the driver that it resumes at its end, and the awaiting coroutine may keep the frame.
template <typename... T>
Task<std::tuple<Held<T>...>> all_of(Task<T>... given) {
  std::tuple<Task<T>...> tasks(std::move(given)...);
  Latch latch(sizeof...(T));
  auto drivers = drive_all(tasks, latch);
  start_all(drivers, latch);
  co_await latch;
  std::apply([](Task<T>&... task) { (rethrow_failure(task), ...); }, tasks);
  co_return std::apply([](Task<T>&... task) { return std::tuple<Held<T>...>(take_held(task)...); }, tasks);
}

template <typename... T>
Task<std::variant<Held<T>...>> any_of(Task<T>... given) {
  using Answer = std::variant<Held<T>...>;
  std::optional<Answer> answer;
  {
    std::tuple<Task<T>...> tasks(std::move(given)...);
    Latch latch(1);
    auto drivers = drive_all(tasks, latch);
    start_all(drivers, latch);
    co_await latch;
    const auto pick = [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((!answer && std::get<I>(tasks).done()
            ? static_cast<void>(answer.emplace(std::in_place_index<I>, take_held(std::get<I>(tasks))))
            : void()),
       ...);
    };
    pick(std::index_sequence_for<T...>());
  }
  co_return std::move(*answer);
}

}  // namespace detail

// Runs all tasks or operations concurrently. The result is a tuple of their values (std::monostate for void).
// The first exception that leaves a task destroys the others, which withdraws the operations they await, and
// is rethrown.
template <typename... A>
requires(sizeof...(A) > 0) [[nodiscard]] auto when_all(A... awaitables) {
  return detail::all_of(as_task(std::move(awaitables))...);
}

// The same for a vector of tasks.
template <typename T>
[[nodiscard]] Task<std::vector<detail::Held<T>>> when_all(std::vector<Task<T>> given) {
  std::vector<Task<T>> tasks = std::move(given);  // as in detail::all_of
  detail::Latch latch(tasks.size());
  std::vector<detail::Driver> drivers;
  drivers.reserve(tasks.size());
  for (Task<T>& task : tasks) drivers.push_back(detail::drive(task, latch));
  detail::start_all(drivers, latch);
  co_await latch;
  for (Task<T>& task : tasks) detail::rethrow_failure(task);
  std::vector<detail::Held<T>> values;
  values.reserve(tasks.size());
  for (Task<T>& task : tasks) values.push_back(detail::take_held(task));
  co_return values;
}

// Runs tasks or operations concurrently until the first one ends. The result is a variant; its index() names
// the winner. The others are destroyed, which withdraws the operations they await.
template <typename... A>
requires(sizeof...(A) > 0) [[nodiscard]] auto when_any(A... awaitables) {
  return detail::any_of(as_task(std::move(awaitables))...);
}

// Owns tasks that run beside its owner. join() awaits all of them. The destructor destroys those that have
// not ended. A task must not destroy the Scope that owns it.
//
// The first exception that leaves a task requests a stop of the others (token()). The next spawn() or join()
// rethrows it; join() first destroys the other tasks. If the Scope ends without either, the program is
// aborted with the exception's text, unless another exception is being thrown. A task whose failure is of no
// interest catches its exceptions.
class Scope {
 public:
  Scope() = default;
  // A stop request to `parent` also stops this scope.
  explicit Scope(std::stop_token parent) { parent_.emplace(std::move(parent), Forward{&source_}); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    destroy_tasks();
    if (exception_ && std::uncaught_exceptions() == 0) detail::exception_lost(exception_);
  }

  // Starts a task and runs it until it first suspends. If an earlier task has failed, rethrows its exception
  // instead.
  void spawn(Task<void> task) {
    rethrow();
    const Handle child = run(this, std::move(task));  // throws if there is no memory
    ++size_;
    child.resume();
  }
  // The stop token for the tasks; cancel() requests a stop.
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
  void cancel() { source_.request_stop(); }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Awaits all tasks, including those spawned meanwhile. If one has failed, destroys the others and rethrows
  // the exception.
  Task<void> join() {
    while (size_ != 0 && !exception_) co_await Joining(this);
    if (exception_) destroy_tasks();
    rethrow();
  }

 private:
  struct Forward {
    std::stop_source* source;
    void operator()() const noexcept { source->request_stop(); }
  };

  struct Handle;
  class Child : public detail::Link {
   public:
    using Self = std::coroutine_handle<Child>;
    static void* operator new(std::size_t size) { return detail::allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept {
      detail::release_frame(frame, size);
    }
    Child(Scope* scope, Task<void>&) : scope_(scope) { scope->children_.push_back(this); }
    ~Child() { --scope_->size_; }
    Handle get_return_object() noexcept { return Handle{Self::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(Self self) noexcept {
        Scope* scope = self.promise().scope_;
        self.destroy();
        // Later, because the joiner may destroy a task that is still running: the one that spawned this one.
        if (scope->size_ == 0 || scope->exception_) {
          while (detail::Wake* joiner = scope->joiners_.pop_front()) detail::wake_later(*joiner);
        }
        return std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {
      if (scope_->exception_) return;
      scope_->exception_ = std::current_exception();
      scope_->cancel();
    }

   private:
    Scope* scope_;
  };
  struct Handle {
    using promise_type = Child;
    std::coroutine_handle<Child> handle;
    void resume() const { handle.resume(); }
  };
  class Joining : detail::Wake {
   public:
    explicit Joining(Scope* scope) : scope_(scope) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> joiner) noexcept {
      waiter = joiner;
      scope_->joiners_.push_back(this);
    }
    void await_resume() const noexcept {}

   private:
    Scope* scope_;
  };

  static Handle run([[maybe_unused]] Scope* scope, Task<void> task) { co_await task; }

  void destroy_tasks() {
    while (Child* child = children_.front()) std::coroutine_handle<Child>::from_promise(*child).destroy();
  }
  void rethrow() {
    if (exception_) [[unlikely]]
      std::rethrow_exception(std::exchange(exception_, nullptr));
  }

  detail::List<Child> children_;
  std::size_t size_ = 0;
  detail::List<detail::Wake> joiners_;
  std::stop_source source_;
  std::optional<std::stop_callback<Forward>> parent_;
  std::exception_ptr exception_;
};

namespace detail {
// A coroutine without an owner.
struct Detached {
  struct promise_type {
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { release_frame(frame, size); }
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};
template <typename A, typename F>
Detached call_then(A awaitable, F callback) {
  callback(co_await awaitable);
}
}  // namespace detail

// For callers without coroutines: starts the operation and calls `callback` with its result, from
// Context::poll or immediately.
template <typename A, typename F>
void then(A awaitable, F callback) {
  detail::call_then(std::move(awaitable), std::move(callback));
}

}  // namespace v0
}  // namespace rrdma::comm
