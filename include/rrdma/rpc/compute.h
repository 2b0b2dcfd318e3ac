// ComputePool: threads for long computations, so that a handler does not block the thread of its connection.
//
//   comm::Task<rpc::Result<Image>> Lens::blur(rpc::Call& call, const Image& image) {
//     co_return co_await pool_.run(call.context(), [&image] { return blurred(image); }, call.limit());
//   }
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "rrdma/comm/context.h"
#include "rrdma/comm/limit.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

namespace detail {
template <typename T>
struct Computed {
  std::optional<Result<T>> value;
  std::exception_ptr exception;
  bool done = false;  // used in the caller's thread only
  WaitPlace place;
};

// The type that a caller gets for a T, a Result<T> or void.
template <typename T>
struct ComputedValue {
  using Type = T;
};
template <typename T>
struct ComputedValue<Result<T>> {
  using Type = T;
};
template <>
struct ComputedValue<void> {
  using Type = Empty;
};

template <typename T>
comm::Task<Result<T>> await_computed(comm::Context* context, std::shared_ptr<Computed<T>> computed,
                                     comm::Limit limit) {
  if (!computed->done) {
    comm::Signal signal(*context, std::move(limit));
    const WaitPlace::Stay stay(computed->place, signal);
    auto waited = co_await signal;
    if (!waited) co_return waited.error();
  }
  if (computed->exception) std::rethrow_exception(computed->exception);
  co_return std::move(*computed->value);
}
}  // namespace detail

// A pool of threads. Any thread may use it. It must be destroyed before the contexts from which it is used.
class RRDMA_RPC_API ComputePool {
 public:
  // With 0, starts as many threads as the machine has CPUs.
  explicit ComputePool(unsigned threads = 0);
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;
  // Waits for running work. Work that has not started is dropped; its callers wait until their limit.
  ~ComputePool();

  // Starts `work()` in one of the threads. Awaiting it returns a Result of its value, in the context, whose
  // thread is the caller's. Rethrows exceptions in the caller. When the limit is reached, the caller resumes,
  // but running work continues. Such work must not use objects that are destroyed with the caller, unless the
  // caller waits without a limit.
  template <typename Work>
  [[nodiscard]] auto run(comm::Context& context, Work work, comm::Limit limit = {}) {
    using Value = std::invoke_result_t<Work>;
    using Held = typename detail::ComputedValue<Value>::Type;
    auto computed = std::make_shared<detail::Computed<Held>>();
    submit([home = &context, computed, work = std::make_shared<Work>(std::move(work))] {
      try {
        if constexpr (std::is_void_v<Value>) {
          (*work)();
          computed->value.emplace(Held{});
        } else {
          computed->value.emplace((*work)());
        }
      } catch (...) {
        computed->exception = std::current_exception();
      }
      home->post([computed] {
        computed->done = true;
        computed->place.give();
      });
    });
    return detail::await_computed<Held>(&context, std::move(computed), std::move(limit));
  }

  [[nodiscard]] std::size_t threads() const { return threads_.size(); }

 private:
  void submit(std::function<void()> job);
  void work();

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace v0
}  // namespace rrdma::rpc
