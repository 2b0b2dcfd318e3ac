// or_throw and try_all: operations and tasks that yield a Result, of this library or of rrdma::rpc.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rrdma/comm/scope.h"
#include "rrdma/comm/task.h"

namespace rrdma::comm {
inline namespace v0 {

namespace detail {

template <typename R>
auto failure_of(const R& result) {
  if constexpr (requires { result.error(); }) {
    return result.error();
  } else {
    return result.status();
  }
}
template <typename R>
using FailureOf = decltype(failure_of(std::declval<const R&>()));

// Result<U> with another value.
template <typename R, typename T>
struct Rebound;
template <template <typename> class R, typename U, typename T>
struct Rebound<R<U>, T> {
  using Type = R<T>;
};

// Leaves a task whose result is a failure, so that its siblings end.
template <typename F>
struct GaveUp {
  F failure;
};

template <typename R>
Task<typename R::Value> value_of(Task<R> task) {
  R result = co_await task;
  if (!result.ok()) throw GaveUp<FailureOf<R>>{failure_of(result)};
  if constexpr (!std::is_void_v<typename R::Value>) co_return std::move(*result);
}

template <typename First, typename... R>
auto try_all_of(Task<First> first, Task<R>... rest) -> Task<
    typename Rebound<First, std::tuple<Held<typename First::Value>, Held<typename R::Value>...>>::Type> {
  using Values = std::tuple<Held<typename First::Value>, Held<typename R::Value>...>;
  using All = typename Rebound<First, Values>::Type;
  std::optional<FailureOf<First>> failure;
  try {
    Task<Values> all = all_of(value_of(std::move(first)), value_of(std::move(rest))...);
    Values values = co_await all;
    co_return All(std::move(values));
  } catch (GaveUp<FailureOf<First>>& given) {
    failure.emplace(std::move(given.failure));
  }
  co_return All(std::move(*failure));
}

}  // namespace detail

// Awaits a Result and returns its value, or throws Failure:
//   Endpoint end = co_await or_throw(context.connect(address));
template <typename A>
[[nodiscard]] auto or_throw(A awaitable) -> Task<typename detail::ValueOf<A>::Value> {
  auto task = as_task(std::move(awaitable));
  auto result = co_await task;
  co_return std::move(result).value_or_throw();
}

// Runs tasks or operations that yield Results concurrently. Succeeds with a tuple of the values
// (std::monostate for void). The first failure destroys the others, which withdraws the operations they
// await, and is the result. An exception does the same and is rethrown.
template <typename... A>
requires(sizeof...(A) > 0) [[nodiscard]] auto try_all(A... awaitables) {
  return detail::try_all_of(as_task(std::move(awaitables))...);
}

// The same for a vector of tasks with values.
template <typename R>
[[nodiscard]] auto try_all(std::vector<Task<R>> tasks)
    -> Task<typename detail::Rebound<R, std::vector<typename R::Value>>::Type> {
  using Values = std::vector<typename R::Value>;
  using All = typename detail::Rebound<R, Values>::Type;
  std::optional<detail::FailureOf<R>> failure;
  try {
    std::vector<Task<typename R::Value>> parts;
    parts.reserve(tasks.size());
    for (Task<R>& task : tasks) parts.push_back(detail::value_of(std::move(task)));
    Task<Values> all = when_all(std::move(parts));
    Values values = co_await all;
    co_return All(std::move(values));
  } catch (detail::GaveUp<detail::FailureOf<R>>& given) {
    failure.emplace(std::move(given.failure));
  }
  co_return All(std::move(*failure));
}

}  // namespace v0
}  // namespace rrdma::comm
