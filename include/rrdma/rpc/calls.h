// Calls: call() of a Channel and of a Client, for methods of plain C++ services.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "rrdma/rpc/bulk.h"
#include "rrdma/rpc/client_call.h"
#include "rrdma/rpc/codec.h"
#include "rrdma/rpc/method.h"

namespace rrdma::rpc {
inline namespace v0 {

template <typename R>
class ResultStream;
template <typename A, typename R>
class ArgumentStream;
template <typename A, typename R>
class Conversation;

namespace detail {

template <Shape kShape, typename A, typename R>
struct StreamOf;
template <typename A, typename R>
struct StreamOf<Shape::kServerStream, A, R> {
  using Type = ResultStream<R>;
};
template <typename A, typename R>
struct StreamOf<Shape::kClientStream, A, R> {
  using Type = ArgumentStream<A, R>;
};
template <typename A, typename R>
struct StreamOf<Shape::kBidirectional, A, R> {
  using Type = Conversation<A, R>;
};

// The second case is an argument that cannot be copied, and is encoded in its place.
template <typename A, typename Argument>
concept ArgumentOf = std::convertible_to<A&&, Argument> || std::same_as<std::remove_cvref_t<A>, Argument>;

// `Self` has the calls by a method's description: unary(), results() and stream(). With kTakesBulk,
// bulk(), too.
template <typename Self>
class Calls {
 public:
  // Calls a method of a plain C++ service.
  //   unary: Task<Result<R>>; streams: Task<Result<ResultStream<R>>>, ArgumentStream<A, R> or
  //   Conversation<A, R>.
  // A Channel encodes the argument immediately, or takes a temporary Bulk without a copy. A Client keeps the
  // argument, to repeat the call.
  template <auto kFunction, typename A = typename MethodOf<kFunction>::Argument>
  requires ArgumentOf<A, typename MethodOf<kFunction>::Argument>
  auto call(A&& argument, CallOptions options = {}) {
    using Of = MethodOf<kFunction>;
    using Argument = typename Of::Argument;
    static_assert(Of::Form::kShape == Shape::kUnary || Of::Form::kShape == Shape::kServerStream,
                  "a method that reads a stream takes no argument");
    if constexpr (Of::Form::kShape != Shape::kUnary) {
      return self().template results<typename Of::Reply, Argument>(Of::method(), std::forward<A>(argument),
                                                                   std::move(options));
    } else if constexpr (IsBulk<A>::value && Self::kTakesBulk) {
      return self().template bulk<typename Of::Reply>(Of::method(), std::move(argument).take(),
                                                      std::move(options));
    } else {
      return self().template unary<typename Of::Reply, Argument>(Of::method(), std::forward<A>(argument),
                                                                 std::move(options));
    }
  }
  template <auto kFunction>
  auto call(CallOptions options = {}) {
    using Of = MethodOf<kFunction>;
    if constexpr (Of::Form::kShape == Shape::kUnary || Of::Form::kShape == Shape::kServerStream) {
      static_assert(std::is_same_v<typename Of::Argument, Empty>, "this method takes an argument");
      return call<kFunction>(Empty{}, std::move(options));
    } else {
      return self()
          .template stream<
              typename StreamOf<Of::Form::kShape, typename Of::Argument, typename Of::Reply>::Type>(
              Of::method(), std::move(options));
    }
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
