// Context: a device, its completion queues, memory and timers, and the loop that drives them. A context
// belongs to one thread. Contexts share nothing with each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// How run() and wait() behave when there is nothing to do.
struct Wait {
  enum class Way : unsigned char { kSpinThenEvent, kPoll, kEvent };
  Way way = Way::kSpinThenEvent;
  std::chrono::nanoseconds spin = std::chrono::microseconds(20);  // time to poll before sleeping

  static constexpr Wait spin_then_event(std::chrono::nanoseconds spin) { return {Way::kSpinThenEvent, spin}; }
  static constexpr Wait poll() { return {Way::kPoll, {}}; }
  static constexpr Wait event() { return {Way::kEvent, {}}; }
};

// Options for opening a Context. The defaults suit a program that uses the only device of the host.
struct ContextOptions {
  std::string device = {};  // name; empty selects the first device with an active port
  // If no hardware device is usable, bring up RRDMA's software device within this process. The first Context
  // decides for the process. Without effect under `rrdma run`, which always provides the device.
  bool software_device = true;
  Wait wait = {};
  PoolOptions pool = {};  // options of the context's own pool
  // The longest wait for the peer of a closed connection to confirm the close. Also applies to the destructor
  // of a context.
  std::chrono::milliseconds linger{1000};
};

// Awaits a point in time.
class RRDMA_COMM_API Sleeping final : public Operation {
 public:
  Sleeping(Sleeping&&) noexcept = default;
  ~Sleeping() override { abandon(); }
  // Succeeds when the time has passed. Fails with kCancelled if a stop was requested earlier.
  Result<void> await_resume();

 private:
  friend class Context;
  Sleeping(detail::Ref<detail::Reactor> reactor, Limit limit, bool yield);
  void begin() override;
  void withdraw() noexcept override;
  bool yield_;
};

// Awaits the addresses of a name.
class RRDMA_COMM_API LookingUp final : public Operation {
 public:
  LookingUp(LookingUp&&) noexcept = default;
  ~LookingUp() override;
  // At least one address, as "host:port" in numbers.
  Result<std::vector<std::string>> await_resume();

 private:
  friend class Context;
  // Refers to the operation from the look-up, as long as both exist.
  struct Search;
  LookingUp(detail::Ref<detail::Reactor> reactor, std::string address, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;

  std::string address_;
  detail::Ref<detail::Counted> search_;
  std::vector<std::string> found_;
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

// A device, its completion queues, memory and timers, and the loop that drives them. Move-only. Belongs to
// the thread that polls it. Only post() may be called from any thread.
class RRDMA_COMM_API Context {
 public:
  static Result<Context> open(const ContextOptions& options = {});
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  // Waits for closing connections (ContextOptions::linger), then aborts the others. Handles may outlive the
  // context; their operations then fail with kClosed.
  ~Context();

  // Connects to "host:port", "[ipv6]:port" or "name:port". A separate thread looks names up.
  [[nodiscard]] Connecting connect(std::string_view address, const Profile& profile, Limit limit = {});
  [[nodiscard]] Connecting connect(std::string_view address, Limit limit = {}) {
    return connect(address, Profile{}, std::move(limit));
  }
  // Looks up all addresses of "name:port", in a separate thread, by DNS or as this system has it. connect()
  // tries the first one only.
  [[nodiscard]] LookingUp look_up(std::string_view address, Limit limit = {});
  // Listens on "host:port", or on ":port" for every address. Port 0 selects a free port; see Listener::port.
  [[nodiscard]] Result<Listener> listen(std::string_view address, int backlog = 128);

  // Handles completions and events, and resumes the coroutines that waited for them. Returns true if there
  // were any. Never blocks. Must not be called from a coroutine that it resumed.
  bool poll();
  // Polls. If there is nothing to do, sleeps as ContextOptions::wait says, until there is or until the
  // deadline.
  bool wait(Clock::time_point until = Clock::time_point::max());
  // Runs a task until it is done and returns its result.
  template <typename T>
  T run(Task<T> task) {
    task.start(std::noop_coroutine());
    while (!task.done()) wait();
    return task.take();
  }
  // Runs until `condition()` holds. Returns false if the deadline passes first.
  template <typename Condition>
  requires std::is_invocable_r_v<bool, Condition>
  bool run_until(Condition condition, Clock::time_point until = Clock::time_point::max()) {
    while (!condition()) {
      if (until != Clock::time_point::max() && Clock::now() >= until) return false;
      wait(until);
    }
    return true;
  }

  // A file descriptor for another event loop. After arm(), it becomes readable when poll() has something to
  // do.
  [[nodiscard]] int fd() const;
  // Call this before sleeping on fd(). If it returns false, there is something to do: poll() instead of
  // sleeping.
  [[nodiscard]] bool arm();

  [[nodiscard]] Sleeping sleep(Clock::duration duration, std::stop_token stop = {});
  // The same for durations that the clock cannot express.
  template <typename Rep, typename Period>
  [[nodiscard]] Sleeping sleep(std::chrono::duration<Rep, Period> duration, std::stop_token stop = {}) {
    return sleep_until(Limit(duration).at(), std::move(stop));
  }
  [[nodiscard]] Sleeping sleep_until(Clock::time_point at, std::stop_token stop = {});
  // Lets all other ready coroutines run first.
  [[nodiscard]] Sleeping yield();
  // Runs `call` in this context's thread, at its next poll. Any thread may call this.
  void post(std::function<void()> call);

  [[nodiscard]] Pool& pool();
  [[nodiscard]] const Device& device() const;
  // The number of endpoints, including those that are closing.
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
  [[nodiscard]] const detail::Ref<detail::Reactor>& reactor() const {
    if (!reactor_) [[unlikely]]
      detail::broken_contract("an operation on a Context that was moved from");
    return reactor_;
  }
  detail::Ref<detail::Reactor> reactor_;
  std::optional<Pool> pool_;
};

}  // namespace v0
}  // namespace rrdma::comm
