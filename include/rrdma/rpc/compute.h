// ComputePool: threads for what takes long to compute, so that a handler does not keep its connection's thread from answering others.
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
  bool done = false;  // in the caller's thread
  WaitPlace place;
};

// What a caller gets for a value, for a Result of one, and for nothing.
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
    if (!waited) co_return Result<T>(status_of(waited.error()));
  }
  if (computed->exception) std::rethrow_exception(computed->exception);
  co_return std::move(*computed->value);
}
}  // namespace detail

// Any thread may use it. It must end before the contexts that it is used from.
class RRDMA_RPC_API ComputePool {
 public:
  // 0: as many threads as the machine runs at a time.
  explicit ComputePool(unsigned threads = 0);
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;
  // Waits for what runs; what has not begun never does, and who waits for it waits until its limit.
  ~ComputePool();

  // Runs `work()` in one of the threads, from now on; awaiting gives Result of its value in the context, whose thread is the caller's. An
  // exception is the caller's. When
  // the limit is reached the caller goes on; work that has begun goes on as well, so it must not look at what dies with the caller
  // unless the caller waits without limit.
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
