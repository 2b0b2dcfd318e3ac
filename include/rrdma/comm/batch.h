// batch(a, b, c): several operations of one context that are begun together, so that a device is told of them once (one
// doorbell for each endpoint). Awaits all of them; the result is a tuple of their results.
#pragma once

#include <coroutine>
#include <cstddef>
#include <tuple>
#include <utility>

#include "rrdma/comm/operation.h"

namespace rrdma::comm {
inline namespace v0 {

namespace detail {

class RRDMA_COMM_API BatchBase {
 public:
  // The last member that is done resumes the batch.
  void member_done(Operation* member);

 protected:
  void begin(Operation& member);
  static void cork(Operation& member);
  static void uncork(Operation& member);

  std::size_t waiting_ = 0;
  std::coroutine_handle<> continuation_;
};

}  // namespace detail

// What batch() gives: awaits all of its operations. Not to be moved once awaited.
template <typename... Operations>
class Batch : private detail::BatchBase {
 public:
  explicit Batch(Operations&&... operations) : operations_(std::move(operations)...) {}
  Batch(const Batch&) = delete;

  bool await_ready() {
    cork(std::get<0>(operations_));
    std::apply([this](auto&... operation) { (begin(operation), ...); }, operations_);
    uncork(std::get<0>(operations_));
    return waiting_ == 0;
  }
  void await_suspend(std::coroutine_handle<> awaiting) { continuation_ = awaiting; }
  auto await_resume() {
    return std::apply([](auto&... operation) { return std::make_tuple(operation.await_resume()...); },
                      operations_);
  }

 private:
  std::tuple<Operations...> operations_;
};

// Begins all of them together when it is awaited. REQUIRES: operations of one context, none begun.
template <typename... Operations>
[[nodiscard]] Batch<Operations...> batch(Operations&&... operations) {
  static_assert(sizeof...(Operations) > 0 && (!std::is_reference_v<Operations> && ...),
                "batch takes operations by value: batch(end.write(…), end.send(…))");
  return Batch<Operations...>(std::move(operations)...);
}

}  // namespace v0
}  // namespace rrdma::comm
