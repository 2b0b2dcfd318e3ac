// BasicResult<T, E>: a value or an error. comm::Result<T> holds an Error, rpc::Result<T> a Status; both
// are this template. The library throws only on request (value_or_throw).
//
// An E has code(), what(), and raise(), which throws it as an exception. A result converts where another
// one is expected if its value and its error do. A coroutine that returns an rpc::Result may thus
// co_return the error of a comm::Result.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

template <typename T, typename E>
class BasicResult;

namespace detail {

// Print a message and abort the program: value() of a failed result, and error() of one that holds a value.
[[noreturn]] RRDMA_COMM_API void no_value(const std::string& error);
[[noreturn]] RRDMA_COMM_API void no_error();

template <typename R>
inline constexpr bool kIsResult = false;
template <typename T, typename E>
inline constexpr bool kIsResult<BasicResult<T, E>> = true;

template <typename E>
using CodeOf = decltype(std::declval<const E&>().code());

// The state of a BasicResult.
template <typename T, typename E>
class Outcome {
 public:
  template <typename U>
  Outcome(std::in_place_index_t<0> value, U&& from) : state_(value, std::forward<U>(from)) {}
  template <typename F>
  Outcome(std::in_place_index_t<1> error, F&& from) : state_(error, std::forward<F>(from)) {}
  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  [[nodiscard]] T& value() { return *std::get_if<0>(&state_); }
  [[nodiscard]] const E& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, E> state_;
};
template <typename E>
class Outcome<void, E> {
 public:
  Outcome() = default;
  template <typename F>
  Outcome(std::in_place_index_t<1>, F&& from) : failed_(true), error_(std::forward<F>(from)) {}
  [[nodiscard]] bool ok() const { return !failed_; }
  void value() {}
  [[nodiscard]] const E& error() const { return error_; }

 private:
  bool failed_ = false;
  E error_;
};

}  // namespace detail

// A value of type T, or an error. T may be void.
template <typename T, typename E>
class [[nodiscard]] BasicResult {
  static constexpr bool kVoid = std::is_void_v<T>;
  static constexpr std::in_place_index_t<0> kValue{};
  static constexpr std::in_place_index_t<1> kError{};
  using Held = std::conditional_t<kVoid, std::monostate, T>;
  using Reference = std::add_lvalue_reference_t<T>;
  using ConstReference = std::add_lvalue_reference_t<const T>;
  using Moved = std::add_rvalue_reference_t<T>;
  template <typename U, typename F>
  static constexpr bool kIsOther = !std::is_same_v<BasicResult<U, F>, BasicResult>;
  template <typename U, typename F>
  static constexpr bool kConverts = std::conjunction_v<std::is_convertible<U, T>, std::is_convertible<F, E>>;

 public:
  using Value = T;
  using Error = E;

  BasicResult() requires kVoid {}
  BasicResult(Held value) requires(!kVoid) : outcome_(kValue, std::move(value)) {}
  // REQUIRES: an error, not a Status that is good.
  BasicResult(E error) : outcome_(kError, std::move(error)) {}
  // From a code, or from another error that converts to E.
  template <typename F>
  requires(!detail::kIsResult<std::remove_cvref_t<F>> && !std::same_as<std::remove_cvref_t<F>, E> &&
           std::convertible_to<F, E> && !std::convertible_to<F, Held>) BasicResult(F&& error)
      : outcome_(kError, std::forward<F>(error)) {}
  // From a code and the further arguments of E's constructor.
  template <typename... More>
  requires(sizeof...(More) != 0 && std::constructible_from<E, detail::CodeOf<E>, More...>)
      BasicResult(detail::CodeOf<E> code, More&&... more)
      : outcome_(kError, E(code, std::forward<More>(more)...)) {}
  // From a result whose value and error convert.
  template <typename U, typename F>
  requires(kIsOther<U, F>) && (kConverts<U, F>)BasicResult(BasicResult<U, F> other)
      : outcome_(converted(other)) {}
  // Not from a result whose value does not convert: it may be good, and a Status made of it, too.
  template <typename U, typename F>
  requires(kIsOther<U, F>) && (!kConverts<U, F>)&&(!std::convertible_to<const BasicResult<U, F>&, Held>)
                                  BasicResult(const BasicResult<U, F>& other) = delete;

  [[nodiscard]] bool ok() const { return outcome_.ok(); }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(). Otherwise prints the error and aborts the program.
  Reference value() & { return checked(); }
  ConstReference value() const& { return const_cast<BasicResult*>(this)->checked(); }
  Moved value() && { return static_cast<Moved>(checked()); }
  Reference operator*() & { return checked(); }
  ConstReference operator*() const& { return const_cast<BasicResult*>(this)->checked(); }
  Moved operator*() && { return static_cast<Moved>(checked()); }
  Held* operator->() requires(!kVoid) { return &checked(); }
  const Held* operator->() const requires(!kVoid) { return &const_cast<BasicResult*>(this)->checked(); }

  // Returns the value, or throws the error as a Failure.
  Reference value_or_throw() & {
    if (!ok()) [[unlikely]]
      outcome_.error().raise();
    return outcome_.value();
  }
  ConstReference value_or_throw() const& { return const_cast<BasicResult*>(this)->value_or_throw(); }
  T value_or_throw() && { return static_cast<Moved>(value_or_throw()); }

  // REQUIRES: !ok().
  [[nodiscard]] const E& error() const {
    if (ok()) [[unlikely]]
      detail::no_error();
    return outcome_.error();
  }
  // The error, or a good status. For errors that may also say success, as rpc::Status.
  [[nodiscard]] E status() const requires requires(const E& error) { error.ok(); }
  { return ok() ? E() : outcome_.error(); }

 private:
  using State = detail::Outcome<T, E>;

  Reference checked() {
    if (!ok()) [[unlikely]]
      detail::no_value(outcome_.error().what());
    return outcome_.value();
  }
  template <typename Other>
  static State converted(Other& other) {
    if (!other.ok()) return State(kError, other.error());
    if constexpr (kVoid) {
      return State();
    } else {
      return State(kValue, *std::move(other));
    }
  }

  State outcome_;
};

}  // namespace v0
}  // namespace rrdma::comm
