// Loop: a context of the C interface with its events. Its objects belong to one thread: the library's own, or
// the program's. run() hands work to that thread; push() hands an event to the program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/rpc/c/handles.h"
#include "rrdma/comm/comm.h"
#include "rrdma/rpc/c.h"
#include "rrdma/rpc/rpc.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace c {

class Loop;

// Memory that a handle owns: registered memory, or wrapped memory of the program.
class Memory final : public Object {
 public:
  static constexpr Kind kKind = Kind::kBuffer;
  Memory(std::shared_ptr<Loop> loop, comm::Buffer buffer);
  // Pushes RRDMA_RPC_EVENT_RELEASED at the end.
  Memory(std::shared_ptr<Loop> loop, const void* data, std::size_t size, std::uint64_t tag);
  ~Memory() override;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  bool shrink(std::size_t size);

 private:
  std::shared_ptr<Loop> loop_;
  comm::Buffer buffer_;
  std::byte* data_;
  std::atomic<std::size_t> size_;
  bool wrapped_ = false;
  std::uint64_t tag_ = 0;
};

struct Event {
  std::uint32_t kind = 0;
  std::uint64_t tag = 0;
  std::uint64_t handle = 0;
  Status status;
  std::shared_ptr<Memory> payload;
  Metadata metadata;
  std::string peer;
  std::int64_t timeout_ns = -1;
};

// An object with parts that belong to the loop's thread.
class Member : public Object, public std::enable_shared_from_this<Member> {
 public:
  // Ends it. In the loop's thread; may be called more than once.
  virtual void end() = 0;
  [[nodiscard]] Loop& loop() const { return *loop_; }
  [[nodiscard]] const std::shared_ptr<Loop>& shared_loop() const { return loop_; }

 protected:
  Member(Kind kind, std::shared_ptr<Loop> loop) : Object(kind), loop_(std::move(loop)) {}

 private:
  std::shared_ptr<Loop> loop_;
};

class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  static constexpr Kind kKind = Kind::kContext;
  explicit Loop(bool threaded) : Object(Kind::kContext), threaded_(threaded) {}
  ~Loop() override;
  Status open(const comm::ContextOptions& options);
  // Ends all members and the thread.
  void close();

  // Runs `work` in the loop's thread: at once if this is that thread. Not at all after close().
  void run(std::function<void()> work);
  // Runs `work` in the loop's thread and waits for its value. Empty after close().
  template <typename T>
  std::optional<T> ask(std::function<T()> work) {
    if (at_home()) return closed_ ? std::optional<T>() : std::optional<T>(work());
    // If the loop ends first, the promise is destroyed and the wait ends.
    auto promise = std::make_shared<std::promise<T>>();
    std::future<T> value = promise->get_future();
    run([promise = std::move(promise), work = std::move(work)] { promise->set_value(work()); });
    try {
      return value.get();
    } catch (const std::future_error&) {
      return std::nullopt;
    }
  }
  // Destroys registered memory in the right thread, even after close().
  void release(comm::Buffer buffer);

  void push(Event event);
  // Takes an event if there is one. Waits for it until the deadline.
  Status wait(comm::Clock::time_point until);
  bool take(Event& event);
  void wake();
  [[nodiscard]] int fd() const;
  // Whether the program may sleep on the file descriptor.
  bool arm();

  // REQUIRES: in the loop's thread, not closed.
  [[nodiscard]] comm::Context& context() { return *context_; }
  [[nodiscard]] const std::string& device() const { return device_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  // Runs a task beside the others until the loop is closed.
  void spawn(comm::Task<void> task) { scope_->spawn(std::move(task)); }
  void join(const std::shared_ptr<Member>& member) { members_.insert(member); }
  void leave(const std::shared_ptr<Member>& member) { members_.erase(member); }

 private:
  [[nodiscard]] bool at_home() const { return !threaded_ || std::this_thread::get_id() == home_; }
  Status open_here(const comm::ContextOptions& options);
  void end_all();
  void run_thread(const comm::ContextOptions& options, std::promise<Status>& started);
  void ring();

  const bool threaded_;
  std::thread thread_;
  std::thread::id home_;
  std::string device_;
  std::string address_;
  // Used in the loop's thread only.
  std::optional<comm::Context> context_;
  std::optional<comm::Scope> scope_;
  std::unordered_set<std::shared_ptr<Member>> members_;
  bool stopping_ = false;

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::vector<comm::Buffer> late_;  // returned while the loop ends
  bool woken_ = false;
  std::atomic<bool> closed_{false};
  std::atomic<bool> ended_{false};  // closed, and the thread has ended
  int bell_ = -1;                   // an eventfd, readable while there are events; only if threaded
};

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
