// batch(a, b, c): starts several operations of one context together, with one doorbell for each endpoint.
// Awaiting the batch awaits all of them and returns a tuple of their results.
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
  // The last member to complete resumes the batch.
  void member_done(Operation* member);

 protected:
  void begin(Operation& member);
  static void cork(Operation& member);
  static void uncork(Operation& member);

  std::size_t waiting_ = 0;
  std::coroutine_handle<> continuation_;
};

}  // namespace detail

// The awaitable that batch() returns. It completes when all operations are complete. Do not move it once
// awaited.
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

// Starts all operations together when awaited. REQUIRES: the operations belong to one context; none has
// started.
template <typename... Operations>
[[nodiscard]] Batch<Operations...> batch(Operations&&... operations) {
  static_assert(sizeof...(Operations) > 0 && (!std::is_reference_v<Operations> && ...),
                "batch takes operations by value: batch(end.write(…), end.send(…))");
  return Batch<Operations...>(std::move(operations)...);
}

}  // namespace v0
}  // namespace rrdma::comm
