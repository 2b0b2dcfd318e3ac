// Senders in the sense of std::execution (P2300): as_sender() makes one of an operation or a Task,
// from_sender() awaits one in a Task. No other header includes this one, and the library has no code for
// it.
//
// The vocabulary (sender_t, set_value_t, completion_signatures, ...) is that of std::execution if the
// standard library has it. For another implementation define RRDMA_EXECUTION as its namespace before
// including this header:
//   #include <stdexec/execution.hpp>
//   #define RRDMA_EXECUTION ::stdexec
//   #include "rrdma/comm/sender.h"
// Without either it is a minimal one of the same names, which knows receivers with members only. All parts
// of a program must choose the same.
#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <variant>
#include <version>

#if defined(RRDMA_EXECUTION)
// The application has included it.
#elif defined(__cpp_lib_senders)
#include <execution>
#endif

#include "rrdma/comm/context.h"
#include "rrdma/comm/result.h"
#include "rrdma/comm/scope.h"
#include "rrdma/comm/signal.h"
#include "rrdma/comm/task.h"

namespace rrdma::comm {
inline namespace v0 {

#if defined(RRDMA_EXECUTION)
namespace execution = RRDMA_EXECUTION;
namespace detail {
using RRDMA_EXECUTION::get_stop_token;
}
#elif defined(__cpp_lib_senders)
namespace execution = ::std::execution;
namespace detail {
using ::std::get_stop_token;
}
#else
namespace execution {

struct sender_t {};
struct receiver_t {};
struct operation_state_t {};

// The type of set_value.
struct set_value_t {
  template <typename R, typename... V>
  void operator()(R&& receiver, V&&... values) const noexcept {
    std::forward<R>(receiver).set_value(std::forward<V>(values)...);
  }
};
// The type of set_error.
struct set_error_t {
  template <typename R, typename E>
  void operator()(R&& receiver, E&& error) const noexcept {
    std::forward<R>(receiver).set_error(std::forward<E>(error));
  }
};
// The type of set_stopped.
struct set_stopped_t {
  template <typename R>
  void operator()(R&& receiver) const noexcept {
    std::forward<R>(receiver).set_stopped();
  }
};
// Completes a receiver with values: `set_value(std::move(receiver), 42)`.
inline constexpr set_value_t set_value{};
// Completes a receiver with an error.
inline constexpr set_error_t set_error{};
// Completes a receiver whose operation was stopped.
inline constexpr set_stopped_t set_stopped{};

template <typename... Signatures>
struct completion_signatures {};

// An environment without answers.
struct empty_env {};
// The type of get_env.
struct get_env_t {
  template <typename R>
  auto operator()(const R& receiver) const noexcept {
    if constexpr (requires { receiver.get_env(); }) {
      return receiver.get_env();
    } else {
      return empty_env{};
    }
  }
};
// The environment of a receiver, or an empty_env.
inline constexpr get_env_t get_env{};

// The type of get_stop_token.
struct get_stop_token_t {
  template <typename Env>
  auto operator()(const Env& env) const noexcept {
    if constexpr (requires { env.query(*this); }) {
      return env.query(*this);
    } else {
      return std::stop_token();
    }
  }
};
// The stop token of an environment: its answer to query(get_stop_token), or one that is never stopped.
inline constexpr get_stop_token_t get_stop_token{};

// The type of connect.
struct connect_t {
  template <typename S, typename R>
  auto operator()(S&& sender, R&& receiver) const {
    return std::forward<S>(sender).connect(std::forward<R>(receiver));
  }
};
// The type of start.
struct start_t {
  template <typename O>
  void operator()(O& operation) const noexcept {
    operation.start();
  }
};
// Connects a sender and a receiver to an operation state.
inline constexpr connect_t connect{};
// Starts an operation state. It must live until its receiver is completed.
inline constexpr start_t start{};

}  // namespace execution
namespace detail {
using execution::get_stop_token;
}
#endif

namespace detail {

// How an awaited value completes a receiver. A plain value is sent as it is.
template <typename V>
struct Completing {
  using Signatures =
      execution::completion_signatures<execution::set_value_t(V), execution::set_error_t(std::exception_ptr),
                                       execution::set_stopped_t()>;
  template <typename R>
  static void complete(R&& receiver, V&& value) noexcept {
    execution::set_value(std::forward<R>(receiver), std::move(value));
  }
};
template <>
struct Completing<void> {
  using Signatures =
      execution::completion_signatures<execution::set_value_t(), execution::set_error_t(std::exception_ptr),
                                       execution::set_stopped_t()>;
  template <typename R>
  static void complete(R&& receiver, std::monostate) noexcept {
    execution::set_value(std::forward<R>(receiver));
  }
};
template <typename R, typename E>
void complete_with_error(R&& receiver, E error) noexcept {
  if (error.code() == CodeOf<E>::kCancelled) {
    execution::set_stopped(std::forward<R>(receiver));
  } else {
    execution::set_error(std::forward<R>(receiver), std::move(error));
  }
}
// A Result sends its value or its error.
template <typename T, typename E>
struct Completing<BasicResult<T, E>> {
  using Signatures = execution::completion_signatures<execution::set_value_t(T), execution::set_error_t(E),
                                                      execution::set_error_t(std::exception_ptr),
                                                      execution::set_stopped_t()>;
  template <typename R>
  static void complete(R&& receiver, BasicResult<T, E>&& result) noexcept {
    if (!result.ok()) return complete_with_error(std::forward<R>(receiver), result.error());
    execution::set_value(std::forward<R>(receiver), std::move(*result));
  }
};
template <typename E>
struct Completing<BasicResult<void, E>> {
  using Signatures = execution::completion_signatures<execution::set_value_t(), execution::set_error_t(E),
                                                      execution::set_error_t(std::exception_ptr),
                                                      execution::set_stopped_t()>;
  template <typename R>
  static void complete(R&& receiver, const BasicResult<void, E>& result) noexcept {
    if (!result.ok()) return complete_with_error(std::forward<R>(receiver), result.error());
    execution::set_value(std::forward<R>(receiver));
  }
};
// So does an rpc::Status.
template <typename S>
concept StatusLike = !kIsResult<S> && requires(const S& status) {
  { status.ok() } -> std::same_as<bool>;
  status.code();
  status.raise();
};
template <StatusLike S>
struct Completing<S> {
  using Signatures = typename Completing<BasicResult<void, S>>::Signatures;
  template <typename R>
  static void complete(R&& receiver, const S& status) noexcept {
    if (!status.ok()) return complete_with_error(std::forward<R>(receiver), status);
    execution::set_value(std::forward<R>(receiver));
  }
};

inline Task<void> until_stopped(Context* context, std::stop_token stop) {
  Signal stopped(*context, Limit(std::move(stop)));
  static_cast<void>(co_await stopped);
}

// A receiver's stop token as a std::stop_token, which the library understands.
template <typename Token>
class StopOf {
 public:
  explicit StopOf(const Token& token) {
    if (token.stop_possible()) forward_.emplace(token, Forward{&source_.emplace()});
  }
  [[nodiscard]] std::stop_token token() const { return source_ ? source_->get_token() : std::stop_token(); }

 private:
  struct Forward {
    std::stop_source* source;
    void operator()() const noexcept { source->request_stop(); }
  };
  std::optional<std::stop_source> source_;
  std::optional<typename Token::template callback_type<Forward>> forward_;
};
template <std::derived_from<std::stop_token> Token>
class StopOf<Token> {
 public:
  explicit StopOf(std::stop_token token) : token_(std::move(token)) {}
  [[nodiscard]] const std::stop_token& token() const { return token_; }

 private:
  std::stop_token token_;
};

// The operation state of a TaskSender. The receiver may destroy it when it is completed.
template <typename V, typename R>
class SenderState {
  using Token = std::remove_cvref_t<decltype(get_stop_token(execution::get_env(std::declval<const R&>())))>;

 public:
  using operation_state_concept = execution::operation_state_t;
  SenderState(Context* context, Task<V> task, R receiver)
      : context_(context), task_(std::move(task)), receiver_(std::move(receiver)) {}
  SenderState(const SenderState&) = delete;
  SenderState& operator=(const SenderState&) = delete;

  void start() & noexcept { run(this); }

 private:
  static Detached run(SenderState* self) {
    std::optional<Held<V>> value;
    std::exception_ptr exception;
    try {
      self->stop_.emplace(get_stop_token(execution::get_env(self->receiver_)));
      const std::stop_token stop = self->stop_->token();
      if (!stop.stop_possible()) {
        co_await self->task_.finished();
        value.emplace(take_held(self->task_));
      } else if (!stop.stop_requested()) {
        // The end of the race destroys the task, which withdraws its operation.
        auto race = when_any(std::move(self->task_), until_stopped(self->context_, stop));
        auto winner = co_await race;
        if (winner.index() == 0) value.emplace(std::get<0>(std::move(winner)));
      }
    } catch (...) {
      exception = std::current_exception();
    }
    self->stop_.reset();
    R receiver = std::move(self->receiver_);
    if (exception) {
      execution::set_error(std::move(receiver), std::move(exception));
    } else if (!value) {
      execution::set_stopped(std::move(receiver));
    } else {
      Completing<V>::complete(std::move(receiver), std::move(*value));
    }
  }

  Context* context_;
  Task<V> task_;
  R receiver_;
  std::optional<StopOf<Token>> stop_;
};

// The sender that as_sender() returns. It can be connected once.
template <typename V>
class TaskSender {
 public:
  using sender_concept = execution::sender_t;
  using completion_signatures = typename Completing<V>::Signatures;
  template <typename...>
  static consteval completion_signatures get_completion_signatures() {
    return {};
  }

  TaskSender(Context& context, Task<V> task) : context_(&context), task_(std::move(task)) {}
  template <typename R>
  [[nodiscard]] SenderState<V, std::remove_cvref_t<R>> connect(R&& receiver) && {
    return {context_, std::move(task_), std::forward<R>(receiver)};
  }

 private:
  Context* context_;
  Task<V> task_;
};

}  // namespace detail

// Makes a sender of an operation or a Task:
//   a Result      set_value(value), set_error(Error or Status), or set_stopped() if its code is kCancelled
//   a Status      the same, without a value
//   another type  set_value(value)
// An exception becomes set_error(std::exception_ptr). A stop request to the receiver's stop token, from
// any thread, withdraws the operation; then set_stopped(). The sender is started, and completes, in the
// thread of the context. The context must outlive it.
template <typename A>
[[nodiscard]] auto as_sender(Context& context, A awaitable) {
  auto task = as_task(std::move(awaitable));
  return detail::TaskSender<typename decltype(task)::Value>(context, std::move(task));
}

namespace detail {

// A sender that a Task awaits. It lives until the sender is complete, even if the Task is destroyed earlier.
template <typename T>
struct Awaited {
  explicit Awaited(Context& its_context) : context(&its_context) {}
  Context* context;
  std::stop_source stop;
  std::optional<Result<T>> result;
  std::exception_ptr exception;
  // Used in the context's thread only.
  Signal* waiter = nullptr;
  bool done = false;

  // Wakes the waiter. From any thread.
  static void complete(std::shared_ptr<void> operation, Awaited& awaited) {
    Context* context = awaited.context;
    context->post([operation = std::move(operation), &awaited] {
      awaited.done = true;
      if (awaited.waiter != nullptr) awaited.waiter->give();
    });
  }
};

template <typename T>
class AwaitingReceiver {
 public:
  using receiver_concept = execution::receiver_t;
  // Senders require the alias, which std::stop_token has from C++26 on.
  struct StopToken : std::stop_token {
    template <typename F>
    using callback_type = std::stop_callback<F>;
  };
  struct Env {
    StopToken stop;
    [[nodiscard]] StopToken query(std::remove_cvref_t<decltype(get_stop_token)>) const noexcept {
      return stop;
    }
  };
  AwaitingReceiver(std::shared_ptr<void>* operation, Awaited<T>& awaited)
      : operation_(operation), awaited_(&awaited) {}

  [[nodiscard]] Env get_env() const noexcept { return {StopToken{awaited_->stop.get_token()}}; }
  template <typename... V>
  void set_value(V&&... values) && noexcept {
    if constexpr (std::is_void_v<T>) {
      awaited_->result.emplace();
    } else {
      try {
        awaited_->result.emplace(T(std::forward<V>(values)...));
      } catch (...) {
        awaited_->exception = std::current_exception();
      }
    }
    complete();
  }
  template <typename E>
  void set_error(E&& error) && noexcept {
    if constexpr (std::same_as<std::remove_cvref_t<E>, std::exception_ptr>) {
      awaited_->exception = std::forward<E>(error);
    } else if constexpr (std::convertible_to<E, Error>) {
      awaited_->result.emplace(Error(std::forward<E>(error)));
    } else if constexpr (requires { error.raise(); }) {
      try {
        error.raise();
      } catch (...) {
        awaited_->exception = std::current_exception();
      }
    } else {
      awaited_->exception = std::make_exception_ptr(std::forward<E>(error));
    }
    complete();
  }
  void set_stopped() && noexcept {
    awaited_->result.emplace(Error(Code::kCancelled, During::kCall));
    complete();
  }

 private:
  void complete() { Awaited<T>::complete(std::move(*operation_), *awaited_); }
  std::shared_ptr<void>* operation_;
  Awaited<T>* awaited_;
};

template <typename T, typename S>
struct AwaitedOperation : Awaited<T> {
  AwaitedOperation(Context& context, S sender)
      : Awaited<T>(context),
        operation(execution::connect(std::move(sender), AwaitingReceiver<T>(&self, *this))) {}
  std::shared_ptr<void> self;  // until it is complete
  decltype(execution::connect(std::declval<S>(), std::declval<AwaitingReceiver<T>>())) operation;
};

// The place of a waiter. Its end, also that of a destroyed Task, stops the sender.
template <typename T>
class AwaitingStay {
 public:
  AwaitingStay(Awaited<T>& awaited, Signal& signal) : awaited_(&awaited) { awaited.waiter = &signal; }
  AwaitingStay(const AwaitingStay&) = delete;
  AwaitingStay& operator=(const AwaitingStay&) = delete;
  ~AwaitingStay() {
    awaited_->waiter = nullptr;
    if (!awaited_->done) awaited_->stop.request_stop();
  }

 private:
  Awaited<T>* awaited_;
};

}  // namespace detail

// Awaits a sender whose value is a T, for instance `co_await from_sender<int>(context,
// std::move(sender))`. The sender may complete in any thread; the Task goes on in the context's.
// set_stopped() is the error kCancelled. An error other than comm::Error is thrown: an exception_ptr by
// what it holds, a Status as rpc::Failure. When the limit is reached, or the Task is destroyed, the sender
// is asked to stop; it lives until it is complete. The context must outlive it.
template <typename T, typename S>
[[nodiscard]] Task<Result<T>> from_sender(Context& context, S sender, Limit limit = {}) {
  auto awaited = std::make_shared<detail::AwaitedOperation<T, S>>(context, std::move(sender));
  Signal signal(context, std::move(limit));
  const detail::AwaitingStay<T> stay(*awaited, signal);
  awaited->self = awaited;
  execution::start(awaited->operation);
  auto waited = co_await signal;
  if (!waited) co_return waited.error();
  if (awaited->exception) std::rethrow_exception(awaited->exception);
  co_return std::move(*awaited->result);
}

}  // namespace v0
}  // namespace rrdma::comm
