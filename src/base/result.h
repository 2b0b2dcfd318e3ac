// Result<T, E>: a value, or the reason why there is none. The C++20 subset common to GCC 12 and clang 14 has
// no std::expected; this class provides the part of it that RRDMA uses.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace rrdma {

template <typename E>
struct Failure {
  E error;
};
template <typename E>
Failure(E) -> Failure<E>;

template <typename T, typename E>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  template <typename F>
  requires std::is_convertible_v<F, E> Result(Failure<F> failure)
      : state_(std::in_place_index<1>, std::move(failure.error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

  // REQUIRES: !ok().
  const E& error() const {
    RRDMA_ASSERT(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  T& checked() {
    RRDMA_ASSERT(ok());
    return *std::get_if<0>(&state_);
  }
  std::variant<T, E> state_;
};

template <typename E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  template <typename F>
  requires std::is_convertible_v<F, E> Result(Failure<F> failure)
      : failed_(true), error_(std::move(failure.error)) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const E& error() const {
    RRDMA_ASSERT(failed_);
    return error_;
  }

 private:
  bool failed_ = false;
  E error_{};
};

}  // namespace rrdma
