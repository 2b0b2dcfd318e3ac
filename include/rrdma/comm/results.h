// or_throw and try_all: operations and tasks that yield a Result, of this library or of rrdma::rpc, or of
// both.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "rrdma/comm/result.h"
#include "rrdma/comm/scope.h"
#include "rrdma/comm/task.h"

namespace rrdma::comm {
inline namespace v0 {

namespace detail {

// Leaves a task whose result is a failure, so that its siblings end.
template <typename E>
struct GaveUp {
  E error;
};

template <typename E, typename R>
Task<typename R::Value> value_of(Task<R> task) {
  R result = co_await task;
  if (!result.ok()) throw GaveUp<E>{result.error()};
  if constexpr (!std::is_void_v<typename R::Value>) co_return std::move(*result);
}

// The result of tasks that give up with an E.
template <typename E, typename Values>
Task<BasicResult<Values, E>> all_or_first_error(Task<Values> all) {
  std::optional<E> error;
  try {
    Values values = co_await all;
    co_return std::move(values);
  } catch (GaveUp<E>& given) {
    error.emplace(std::move(given.error));
  }
  co_return std::move(*error);
}

template <typename... R>
auto try_all_of(Task<R>... tasks) {
  using E = std::common_type_t<typename R::Error...>;
  return all_or_first_error<E>(all_of(value_of<E>(std::move(tasks))...));
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
// await, and is the result: a Status if one of the Results is of rrdma::rpc, otherwise an Error. An exception
// does the same and is rethrown.
template <typename... A>
requires(sizeof...(A) > 0) [[nodiscard]] auto try_all(A... awaitables) {
  return detail::try_all_of(as_task(std::move(awaitables))...);
}

// The same for a vector of tasks.
template <typename R>
[[nodiscard]] auto try_all(std::vector<Task<R>> tasks) {
  using E = typename R::Error;
  std::vector<Task<typename R::Value>> parts;
  parts.reserve(tasks.size());
  for (Task<R>& task : tasks) parts.push_back(detail::value_of<E>(std::move(task)));
  return detail::all_or_first_error<E>(when_all(std::move(parts)));
}

}  // namespace v0
}  // namespace rrdma::comm
