// Worker: one of a server's threads, with its own context and its own part of the server. It receives all
// work through its context's post() and shares nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "lib/rpc/server_connection.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// A value from another thread. The waiter may be gone before it arrives.
template <typename T>
struct Answer {
  std::optional<T> value;
  WaitPlace place;
};

template <typename T>
comm::Task<void> give_answer(comm::Context* home, std::function<comm::Task<T>()> make,
                             std::shared_ptr<Answer<T>> into) {
  T value = co_await make();
  home->post([into, value = std::move(value)] {
    into->value.emplace(value);
    into->place.give();
  });
}

// Runs `make()` in the thread of the context `there`, within `scope` of that thread. Awaits its value in the
// caller's context `home`.
template <typename T>
comm::Task<T> ask_there(comm::Context& there, comm::Scope& scope, comm::Context& home,
                        std::function<comm::Task<T>()> make) {
  auto answer = std::make_shared<Answer<T>>();
  there.post(
      [within = &scope, from = &home, make, answer] { within->spawn(give_answer<T>(from, make, answer)); });
  while (!answer->value) {
    comm::Signal signal(home);
    const WaitPlace::Stay stay(answer->place, signal);
    static_cast<void>(co_await signal);
  }
  co_return std::move(*answer->value);
}

class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  // Ends its connections and its thread.
  ~Worker();
  // Requests the end without waiting for it.
  void stop();

  // Starts the thread. Fails if the context cannot be opened.
  Status start(const comm::ContextOptions& context, const ServerOptions& options, ServerState& whole);
  void add(Handler handler);
  // Hands a connection request to this thread.
  void take(comm::Incoming incoming);
  void abort();
  // Connections that were handed to this thread and have not ended.
  [[nodiscard]] std::size_t load() const { return load_.load(std::memory_order_relaxed); }
  [[nodiscard]] const ServerState& state() const { return *state_; }

  // Runs `make(state)` in this thread and awaits its value in the caller's context `home`.
  template <typename T>
  comm::Task<T> ask(comm::Context& home, std::function<comm::Task<T>(ServerState&)> make) {
    return ask_there<T>(*context_, *scope_, home, [this, make] { return make(*state_); });
  }

 private:
  void run(const comm::ContextOptions& context, const ServerOptions& options, ServerState& whole,
           std::promise<Status>& started);
  comm::Task<void> serve(comm::Incoming incoming);
  comm::Context* context_ = nullptr;
  ServerState* state_ = nullptr;
  comm::Scope* scope_ = nullptr;
  bool stopping_ = false;  // used in its own thread only
  std::atomic<std::size_t> load_{0};
  std::thread thread_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
