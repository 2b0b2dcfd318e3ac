// Adapts a member function of a service for the server: decodes the argument, runs the method, sends its
// result.
#pragma once

#include <coroutine>
#include <type_traits>
#include <utility>

#include "rrdma/rpc/call.h"
#include "rrdma/rpc/method.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

struct Handler {
  Method method;
  std::string service;  // storage for method's views
  std::string name;
  void* object = nullptr;
  comm::Task<void> (*run)(void* object, ServerCall& call) = nullptr;
  // Runs a method that is not a coroutine. Null for coroutines.
  void (*run_now)(void* object, ServerCall& call) = nullptr;
};

// Ends the call with the value that a method returned.
template <typename V>
void conclude(ServerCall& call, V& value) {
  if constexpr (std::is_same_v<V, Status>) {
    if (!value.ok()) return call.fail(value);
    Empty nothing;
    call.reply(nothing);
  } else if constexpr (comm::detail::kIsResult<V>) {
    if (!value.ok()) return call.fail(Status(value.error()));
    if constexpr (std::is_void_v<typename V::Value>) {
      Empty nothing;
      call.reply(nothing);
    } else {
      call.reply(*value);
    }
  } else {
    call.reply(value);
  }
}

// Calls the function, with the Call as first argument if it takes one.
template <bool kCall, typename Function, typename Service, typename... A>
auto invoke(Function function, Service& service, ServerCall& call, A&&... arguments) {
  if constexpr (kCall) {
    return (service.*function)(static_cast<Call&>(call), std::forward<A>(arguments)...);
  } else {
    return (service.*function)(std::forward<A>(arguments)...);
  }
}

// Awaits the value that a method returned, which may be a Task, and ends the call with it. It is an awaiter,
// not a coroutine: another coroutine for each call would cost as much as the call itself.
template <typename Return>
class Concluding {
 public:
  Concluding(ServerCall& call, Return returned) : call_(&call), returned_(std::move(returned)) {}
  Concluding(const Concluding&) = delete;
  Concluding& operator=(const Concluding&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return !comm::detail::IsTask<Return>::value; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    if constexpr (comm::detail::IsTask<Return>::value) {
      return returned_.finished().await_suspend(awaiting);
    } else {
      return awaiting;
    }
  }
  void await_resume() {
    if constexpr (!comm::detail::IsTask<Return>::value) {
      conclude(*call_, returned_);
    } else if constexpr (std::is_void_v<typename Return::Value>) {
      returned_.take();
      Empty nothing;
      call_->reply(nothing);
    } else {
      auto value = returned_.take();
      conclude(*call_, value);
    }
  }

 private:
  ServerCall* call_;
  Return returned_;
};
template <>
class Concluding<void> {
 public:
  explicit Concluding(ServerCall& call) : call_(&call) {}
  [[nodiscard]] static bool await_ready() noexcept { return true; }
  static void await_suspend(std::coroutine_handle<>) noexcept {}
  void await_resume() {
    Empty nothing;
    call_->reply(nothing);
  }

 private:
  ServerCall* call_;
};

// Runs `give()`. Awaiting the returned object ends the call.
template <typename Return, typename Give>
Concluding<Return> conclusion(ServerCall& call, const Give& give) {
  if constexpr (std::is_void_v<Return>) {
    give();
    return Concluding<void>(call);
  } else {
    return Concluding<Return>(call, give());
  }
}

// Returns false if the call has failed.
template <typename A>
bool read_argument(ServerCall& call, A& argument) {
  const bool read = read_payload(call.argument(), call.context(), argument);
  // Return the credit before the method runs, because the method may take long.
  call.argument().release();
  if (!read) call.fail(Status(Code::kInvalidArgument, "the argument cannot be read"));
  return read;
}

// Calls a unary method.
template <typename Form, bool kCall, typename Function, typename Service>
auto give_unary(Function function, Service& service, ServerCall& call, typename Form::Argument& argument) {
  if constexpr (!Form::kArgument) {
    return invoke<kCall>(function, service, call);
  } else if constexpr (IsBulk<typename Form::Argument>::value) {
    return invoke<kCall>(function, service, call, std::move(argument));
  } else {
    return invoke<kCall>(function, service, call, argument);
  }
}

// Runs a method in one of the forms of method.h. `Function` is the type of a pointer to it.
template <typename Form, bool kCall, typename Function, typename Service, typename Return>
comm::Task<void> serve(Function function, Service& service, ServerCall& call) {
  using Argument = typename Form::Argument;
  using Reply = typename Form::Reply;
  if constexpr (Form::kShape == Shape::kUnary) {
    Argument argument{};
    if (!read_argument(call, argument)) co_return;
    auto ending =
        conclusion<Return>(call, [&] { return give_unary<Form, kCall>(function, service, call, argument); });
    co_await ending;
  } else if constexpr (Form::kShape == Shape::kServerStream) {
    Argument argument{};
    if (!read_argument(call, argument)) co_return;
    Writer<Reply> writer(call.outbound());
    auto ending =
        conclusion<Return>(call, [&] { return invoke<kCall>(function, service, call, argument, writer); });
    co_await ending;
  } else if constexpr (Form::kShape == Shape::kClientStream) {
    Reader<Argument> reader(call.inbound());
    auto ending = conclusion<Return>(call, [&] { return invoke<kCall>(function, service, call, reader); });
    co_await ending;
  } else {
    Reader<Argument> reader(call.inbound());
    Writer<Reply> writer(call.outbound());
    auto ending =
        conclusion<Return>(call, [&] { return invoke<kCall>(function, service, call, reader, writer); });
    co_await ending;
  }
}

template <auto kFunction>
comm::Task<void> serve_method(void* object, ServerCall& call) {
  using Of = MethodOf<kFunction>;
  using Service = typename Of::Service;
  return serve<typename Of::Form, Of::kCall, decltype(kFunction), Service, typename Of::Return>(
      kFunction, *static_cast<Service*>(object), call);
}

// Runs a unary method that is not a coroutine.
template <auto kFunction>
void serve_method_now(void* object, ServerCall& call) {
  using Of = MethodOf<kFunction>;
  using Form = typename Of::Form;
  typename Form::Argument argument{};
  if (!read_argument(call, argument)) return;
  auto ending = conclusion<typename Of::Return>(call, [&] {
    return give_unary<Form, Of::kCall>(kFunction, *static_cast<typename Of::Service*>(object), call,
                                       argument);
  });
  ending.await_resume();
}

template <auto kFunction>
Handler handler_of(typename MethodOf<kFunction>::Service& service) {
  Handler handler;
  handler.method = MethodOf<kFunction>::method();
  handler.object = &service;
  handler.run = &serve_method<kFunction>;
  using Of = MethodOf<kFunction>;
  if constexpr (Of::Form::kShape == Shape::kUnary && !comm::detail::IsTask<typename Of::Return>::value)
    handler.run_now = &serve_method_now<kFunction>;
  return handler;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
