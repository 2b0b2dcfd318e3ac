// Awaiting: the part of a promise that creates the coroutine and passes its handle to awaiters. It makes
// `co_await` in conditions safe with GCC 12.1 and 12.2.
//
// These compilers lay out some frames wrongly (GCC bug 106188): if a coroutine awaits in a condition and has
// no local variable in its outermost block, temporaries of the condition precede the pointers to its resume
// and destroy functions. A std::coroutine_handle expects the pointers at its address. The compiler uses two
// addresses for such a frame: that of its start for the two functions and for the handles that it passes to
// awaiters, and that of the pointers for handles made by from_promise().
//
// Awaiting compares both when the coroutine is created. If they differ, it replaces the two pointers with
// functions that call the right ones with the start of the frame. Awaiters always get a handle from
// from_promise(), so the second address is valid everywhere.
//
// Objects of one program may come from several compilers, and share these inline functions. The functions
// must therefore not depend on the compiler.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstring>
#include <utility>

#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// Prints the reason and aborts the program: a frame that cannot be repaired.
[[noreturn]] RRDMA_COMM_API void frame_is_broken() noexcept;

// The functions of a frame whose pointers are not at its start. Unused for other frames, and not initialised.
class FrameRepair {
 public:
  // REQUIRES: the coroutine is suspended for the first time. `start`: the handle that the compiler passed.
  template <typename Promise>
  void repair(Promise& promise, std::coroutine_handle<> start) noexcept {
    const auto right = std::coroutine_handle<Promise>::from_promise(promise);
    if (right.address() == start.address()) [[likely]]
      return;
    // With padding before the promise, from_promise() misses the pointers.
    if constexpr (alignof(Promise) > alignof(void*)) {
      frame_is_broken();
    } else {
      auto* const pointers = static_cast<std::byte*>(right.address());
      distance_ = pointers - static_cast<std::byte*>(start.address());
      replace(pointers, resume_, [](void* frame) { call<Promise>(frame, &FrameRepair::resume_); });
      replace(pointers + sizeof(Function), destroy_,
              [](void* frame) { call<Promise>(frame, &FrameRepair::destroy_); });
    }
  }

 private:
  using Function = void (*)(void*);

  // The compiler's pointers are of another type.
  static void replace(std::byte* pointer, Function& found, Function with) {
    std::memcpy(&found, pointer, sizeof(found));
    std::memcpy(pointer, &with, sizeof(with));
  }
  template <typename Promise>
  static void call(void* frame, Function FrameRepair::*which) {
    const FrameRepair& self = std::coroutine_handle<Promise>::from_address(frame).promise().repair_;
    (self.*which)(static_cast<std::byte*>(frame) - self.distance_);
  }
  Function resume_;
  Function destroy_;
  std::ptrdiff_t distance_;
};

// An awaiter that passes the right handle to another one. `Awaiter` may be a reference.
template <typename Promise, typename Awaiter>
struct Through {
  Promise* promise;
  Awaiter awaiter;

  decltype(auto) await_ready() noexcept(noexcept(awaiter.await_ready())) { return awaiter.await_ready(); }
  decltype(auto) await_suspend(std::coroutine_handle<>) {
    return awaiter.await_suspend(std::coroutine_handle<Promise>::from_promise(*promise));
  }
  decltype(auto) await_resume() { return awaiter.await_resume(); }
};

template <typename A>
concept AwaitedByMember = requires(A&& awaitable) {
  std::forward<A>(awaitable).operator co_await();
};
template <typename A>
concept AwaitedByFunction = requires(A&& awaitable) {
  operator co_await(std::forward<A>(awaitable));
};

// The base of a promise that has a member `FrameRepair repair_` and is a friend of FrameRepair.
template <typename Promise>
class Awaiting {
 public:
  class InitialAwaiter {
   public:
    explicit InitialAwaiter(Promise& promise) : promise_(&promise) {}
    bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> start) noexcept { promise_->repair_.repair(*promise_, start); }
    void await_resume() noexcept {}

   private:
    Promise* promise_;
  };
  InitialAwaiter initial_suspend() noexcept { return InitialAwaiter(promise()); }

  class FinalAwaiter {
   public:
    explicit FinalAwaiter(Promise& promise) : promise_(&promise) {}
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<>) noexcept {
      return promise_->continuation();
    }
    void await_resume() noexcept {}

   private:
    Promise* promise_;
  };
  FinalAwaiter final_suspend() noexcept { return FinalAwaiter(promise()); }

  template <typename A>
  auto await_transform(A&& awaitable) {
    if constexpr (AwaitedByMember<A>) {
      return Through<Promise, decltype(std::forward<A>(awaitable).operator co_await())>{
          &promise(), std::forward<A>(awaitable).operator co_await()};
    } else if constexpr (AwaitedByFunction<A>) {
      return Through<Promise, decltype(operator co_await(std::forward<A>(awaitable)))>{
          &promise(), operator co_await(std::forward<A>(awaitable))};
    } else {
      // A temporary lives until the awaiting expression is complete.
      return Through<Promise, A&>{&promise(), awaitable};
    }
  }

 private:
  Promise& promise() noexcept { return static_cast<Promise&>(*this); }
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
