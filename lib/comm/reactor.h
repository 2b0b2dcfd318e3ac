// Reactor: the state behind a Context. A turn reads completions in batches, which complete operations. It
// then handles connection events and the inbox, fires timers, and resumes ready coroutines in order. At the
// end, endpoints settle: they repost receives, grant credits and post queued requests.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "lib/comm/address.h"
#include "lib/comm/inbox.h"
#include "lib/comm/owned_fd.h"
#include "lib/comm/pool_state.h"
#include "lib/comm/timers.h"
#include "rrdma/comm/context.h"
#include "rrdma/comm/turn_end.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// Identifies the calling thread.
inline const void* this_thread() {
  static thread_local char mark;
  return &mark;
}

// The object that a wr_id points to.
struct Completion {
  void (*arrive)(Completion* self, const ibv_wc& wc);
};

// The object that an rdma_cm_id's context points to.
class CmTarget {
 public:
  virtual void handle_event(const rdma_cm_event& event) = 0;

 protected:
  ~CmTarget() = default;
};

// A completion queue with a known number of free entries.
struct CompletionShard {
  ibv_cq* queue = nullptr;
  std::uint32_t entries = 0;
  std::uint32_t reserved = 0;
  // Grows by `entries` or more until everything that is in the queue now has been read.
  std::uint64_t passed = 0;
};

// An object that the reactor holds until it has ended by itself.
class Resident : public Counted, public Link {
 public:
  // The context ends: end now and fail all waiters.
  virtual void shut_down() = 0;
  // Whether ~Context should wait for it.
  [[nodiscard]] virtual bool lingering() const { return false; }
};

class Reactor final : public Counted {
 public:
  static Result<Ref<Reactor>> open(const ContextOptions& options);
  ~Reactor() override;

  bool turn();
  // Checks the files, then runs a turn. A plain turn checks the files only now and then.
  bool look_and_turn();
  [[nodiscard]] bool armed() const { return armed_; }
  bool wait(Clock::time_point until);
  bool arm();
  [[nodiscard]] int fd() const { return epoll_.number(); }
  // Ends everything. Called by ~Context.
  void shut_down();
  [[nodiscard]] bool closed() const { return closed_; }

  void make_ready(Operation* operation) { ready_.push_back(operation); }
  // Completes the operation in the next turn.
  void complete_later(Operation* operation) { yielding_.push_back(operation); }
  // Retries an operation that waited for a resource. REQUIRES: it is in no list.
  static void begin_again(Operation* operation) { operation->begin(); }
  void settle_later(Settler* settler) {
    if (!settler->linked()) settling_.push_back(settler);
  }
  // Settles before all of those: for objects that collect data to send.
  void flush_later(Settler* settler) {
    if (!settler->linked()) flushing_.push_back(settler);
  }
  // While corked, requests are collected; uncork() posts them.
  void cork() { corked_ = true; }
  void uncork() {
    corked_ = false;
    settle_all();
  }
  [[nodiscard]] bool corked() const { return corked_; }
  // Aborts the program if another thread polls this context or sleeps in it.
  void require_thread() const {
    const void* inside = inside_.load(std::memory_order_relaxed);
    if (inside != nullptr && inside != this_thread()) [[unlikely]]
      broken_contract("two threads use one Context or its objects; Context::post() hands work to its thread");
  }
  void request_stop(Operation* operation);
  Timers& timers() { return timers_; }
  StopInbox& inbox() { return *inbox_; }
  // Looks a name up in a separate thread, then calls `found` in this thread, unless the context has ended.
  void look_up(HostPort address, std::function<void(Result<SocketAddress>)> found);
  // The same for all addresses of a name.
  void look_up_all(HostPort address, std::function<void(Result<std::vector<SocketAddress>>)> found);

  [[nodiscard]] ibv_context* verbs() const { return verbs_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }
  [[nodiscard]] rdma_event_channel* cm_channel() const { return cm_channel_; }
  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const Ref<PoolState>& pool() const { return pool_; }
  [[nodiscard]] const ContextOptions& options() const { return options_; }

  // Reserves room for this many completions in a queue, until released.
  Result<CompletionShard*> reserve_completions(std::uint32_t entries);
  void release_completions(CompletionShard* shard, std::uint32_t entries) { shard->reserved -= entries; }

  void add_pool(PoolState* pool);
  void move_in(Resident* resident);
  // Drops the reactor's reference at the end of the turn.
  void move_out(Resident* resident);
  [[nodiscard]] std::size_t residents() const { return resident_count_; }

 private:
  // Marks the calling thread as the one that polls.
  class Inside {
   public:
    explicit Inside(Reactor& reactor)
        : reactor_(reactor), outer_(reactor.inside_.load(std::memory_order_relaxed)) {
      reactor.require_thread();
      reactor.inside_.store(this_thread(), std::memory_order_relaxed);
    }
    Inside(const Inside&) = delete;
    ~Inside() { reactor_.inside_.store(outer_, std::memory_order_relaxed); }

   private:
    Reactor& reactor_;
    const void* outer_;
  };

  Reactor() = default;
  Result<void> open_device(const ContextOptions& options);
  Result<void> open_files();
  Result<CompletionShard*> add_shard(std::uint32_t entries);
  std::size_t poll_completions();
  bool take_cm_events();
  int wait_for_files(std::span<epoll_event> ready, const timespec* most);
  void take_file_events(const timespec* most);
  bool fire_timers();
  void resume_ready();
  void complete_yielding();
  void settle_all();
  [[nodiscard]] bool unsettled() const { return !flushing_.empty() || !settling_.empty(); }
  void let_go();
  bool look_around();
  void take_completion_event();
  void arm_queues();
  bool sleep(Clock::time_point until);

  ContextOptions options_;
  Device device_;
  ibv_context* verbs_ = nullptr;  // owned by librdmacm
  ibv_pd* domain_ = nullptr;
  ibv_device_attr limits_{};
  ibv_comp_channel* completion_channel_ = nullptr;
  rdma_event_channel* cm_channel_ = nullptr;
  OwnedFd epoll_;
  OwnedFd timer_fd_;
  std::vector<std::unique_ptr<CompletionShard>> shards_;
  List<Operation> ready_;
  List<Operation> yielding_;
  List<Operation> running_;  // being resumed in this turn
  List<Settler> flushing_;
  List<Settler> settling_;
  List<Resident> residents_;
  List<Resident> leaving_;
  std::size_t resident_count_ = 0;
  Timers timers_;
  // Shared with threads that look names up.
  std::shared_ptr<StopInbox> inbox_ = std::make_shared<StopInbox>();
  std::map<std::uint64_t, std::function<void(Result<std::vector<SocketAddress>>)>> look_ups_;
  std::uint64_t next_look_up_ = 0;
  Ref<PoolState> pool_;  // reset by shut_down, because the pool holds the reactor
  List<PoolState> pools_;
  std::atomic<const void*> owner_{nullptr};   // identifies the thread that polled last
  std::atomic<const void*> inside_{nullptr};  // the thread that polls or sleeps now
  std::uint32_t idle_turns_ = 0;
  std::uint32_t busy_turns_ = 0;
  std::uint32_t idle_turns_to_look_ = 1;
  Clock::time_point looked_;
  // Turns before the clock is read again, unless a timer earlier than next_seen_ is set.
  std::uint32_t turns_to_clock_ = 0;
  Clock::time_point next_seen_;
  bool armed_ = false;                 // a thread may sleep on fd()
  bool slept_ = false;                 // in the last wait()
  bool has_completion_event_ = false;  // not yet taken
  bool old_kernel_ = false;
  bool corked_ = false;
  bool turning_ = false;
  bool closed_ = false;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
