// Context: a device, its completion queues, memory and timers, and the loop that drives them. A context belongs to one
// thread; several threads have several contexts, which share nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rrdma/comm/buffer.h"
#include "rrdma/comm/device.h"
#include "rrdma/comm/endpoint.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/listener.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/signal.h"
#include "rrdma/comm/task.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

namespace detail {
class Registration;
}

// What run() and wait() do when there is nothing to do.
struct Wait {
  enum class Way : unsigned char { kSpinThenEvent, kPoll, kEvent };
  Way way = Way::kSpinThenEvent;
  std::chrono::nanoseconds spin = std::chrono::microseconds(20);  // looks this long before it sleeps

  static constexpr Wait spin_then_event(std::chrono::nanoseconds spin) { return {Way::kSpinThenEvent, spin}; }
  static constexpr Wait poll() { return {Way::kPoll, {}}; }
  static constexpr Wait event() { return {Way::kEvent, {}}; }
};

// What a Context is opened with. The defaults suit a program that talks through the only device there is.
struct ContextOptions {
  std::string device = {};  // its name; empty: the first that has an active port
  Wait wait = {};
  PoolOptions pool = {};  // of the context's own pool
  // How long a connection that was closed waits for its peer to know of it, the destructor of a context included.
  std::chrono::milliseconds linger{1000};
};

// Awaits the passing of time.
class RRDMA_COMM_API Sleeping final : public Operation {
 public:
  Sleeping(Sleeping&&) noexcept = default;
  ~Sleeping() override { abandon(); }
  // Good when the time is over; kCancelled when a stop was requested before.
  Result<void> await_resume();

 private:
  friend class Context;
  Sleeping(detail::Ref<detail::Reactor> reactor, Limit limit, bool yield);
  void begin() override;
  void withdraw() noexcept override;
  bool yield_;
};

// Awaits a connection.
class RRDMA_COMM_API Connecting final : public Operation, private detail::Opener {
 public:
  Connecting(Connecting&&) noexcept = default;
  ~Connecting() override;
  Result<Endpoint> await_resume();

 private:
  friend class Context;
  friend class detail::EndpointState;
  Connecting(detail::Ref<detail::Reactor> reactor, std::string address, const Profile& profile, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;
  void opened() override;
  void not_opened(Error error) override;

  std::string address_;
  Profile profile_;
  std::string hello_;
  detail::Ref<detail::EndpointState> endpoint_;
};

// A device, its completion queues, memory and timers, and the loop that drives them. Move-only; belongs to the thread that polls it, but for
// post(), which any thread may call.
class RRDMA_COMM_API Context {
 public:
  static Result<Context> open(const ContextOptions& options = {});
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  // Waits for connections that are closing (ContextOptions::linger), then ends the rest. Handles may outlive it; their
  // operations then fail with kClosed.
  ~Context();

  // Connects to "host:port", "[ipv6]:port" or "name:port". A name is looked up in a thread of its own.
  [[nodiscard]] Connecting connect(std::string_view address, const Profile& profile, Limit limit = {});
  [[nodiscard]] Connecting connect(std::string_view address, Limit limit = {}) {
    return connect(address, Profile{}, std::move(limit));
  }
  // Listens at "host:port", ":port" (every address) or port 0 (any free one; see Listener::port).
  [[nodiscard]] Result<Listener> listen(std::string_view address, int backlog = 128);

  // Reads what has arrived and resumes who waited for it; true when there was anything. Never blocks. May not be called from
  // a coroutine that it resumed.
  bool poll();
  // Polls, and sleeps as ContextOptions::wait says until there was something or the time is over.
  bool wait(Clock::time_point until = Clock::time_point::max());
  // Runs a task to its end.
  template <typename T>
  T run(Task<T> task) {
    task.start(std::noop_coroutine());
    while (!task.done()) wait();
    return task.take();
  }
  // Runs until `condition()` holds; false when the time was over before.
  template <typename Condition>
  requires std::is_invocable_r_v<bool, Condition>
  bool run_until(Condition condition, Clock::time_point until = Clock::time_point::max()) {
    while (!condition()) {
      if (until != Clock::time_point::max() && Clock::now() >= until) return false;
      wait(until);
    }
    return true;
  }

  // For another loop: becomes readable when poll() has something to do, once arm() was called.
  [[nodiscard]] int fd() const;
  // Call before sleeping on fd(). False: there is something to do now, poll() instead of sleeping.
  [[nodiscard]] bool arm();

  [[nodiscard]] Sleeping sleep(Clock::duration duration, std::stop_token stop = {});
  [[nodiscard]] Sleeping sleep_until(Clock::time_point at, std::stop_token stop = {});
  // Lets everybody else run first.
  [[nodiscard]] Sleeping yield();
  // Runs `call` in this context's thread, from its next poll. The one function that any thread may call.
  void post(std::function<void()> call);

  [[nodiscard]] Pool& pool();
  [[nodiscard]] const Device& device() const;
  // Endpoints that exist, closing ones among them.
  [[nodiscard]] std::size_t endpoints() const;

 private:
  friend class Pool;
  friend class Incoming;
  friend class Signal;
  friend class Alarm;
  friend class TurnEnd;
  friend class Datagram;
  friend class detail::Registration;
  explicit Context(detail::Ref<detail::Reactor> reactor);
  detail::Ref<detail::Reactor> reactor_;
  std::optional<Pool> pool_;
};

}  // namespace v0
}  // namespace rrdma::comm
