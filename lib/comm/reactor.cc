#include "lib/comm/reactor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "lib/comm/device_query.h"
#include "lib/comm/pool_state.h"
#include "lib/comm/wakes.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr int kBatch = 32;          // completions read at a time
constexpr int kBatchesInATurn = 4;  // batches read from one queue before the next queue
constexpr int kRoundsInATurn = 4;   // rounds of resuming before polling again
// Entries of the first completion queue. Each further queue is twice as large.
constexpr std::uint32_t kFirstShard = 1024;
// An upper bound. The clock is also read earlier if the next timer is less than this many long turns away.
constexpr Clock::rep kTurnsWithoutClock = 64;
constexpr Clock::duration kLongTurn = std::chrono::microseconds(20);
// Handlers may take any time.
constexpr std::uint32_t kTurnsWithHandlers = 4;
constexpr int kTurnsOfASpin = 8;  // idle turns between two clock reads, each as expensive as a turn
constexpr std::uint32_t kBusyTurnsToLook = 1024;  // turns with completions between two checks of the files
constexpr std::uint32_t kIdleTurnsToLook = 1024;  // the same for idle turns; an upper bound
// The time between checks when idle turns are slow. A device may sleep in an empty poll, and connecting needs
// several checks.
constexpr Clock::duration kLooksApart = std::chrono::microseconds(500);

void make_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Result<Ref<Reactor>> Reactor::open(const ContextOptions& options) {
  Ref<Reactor> reactor(new Reactor);
  reactor->options_ = options;
  if (auto opened = reactor->open_device(options); !opened) return opened.error();
  if (auto opened = reactor->open_files(); !opened) return opened.error();
  if (auto shard = reactor->add_shard(kFirstShard); !shard) return shard.error();
  reactor->pool_ = Ref<PoolState>(new PoolState(reactor, options.pool));
  reactor->owner_.store(this_thread(), std::memory_order_relaxed);
  return reactor;
}

Result<void> Reactor::open_device(const ContextOptions& options) {
  auto found = find_device(options.device, options.software_device);
  if (!found) return found.error();
  verbs_ = found->verbs;
  limits_ = found->limits;
  device_ = std::move(found->device);
  domain_ = ibv_alloc_pd(verbs_);
  if (domain_ == nullptr)
    return Error(Code::kSystem, During::kOpen, errno)
        .with_peer(device_.name)
        .with_note("no protection domain");
  return {};
}

Result<void> Reactor::open_files() {
  const auto fail = [this](const char* what) {
    return Error(Code::kSystem, During::kOpen, errno).with_peer(device_.name).with_note(what);
  };
  completion_channel_ = ibv_create_comp_channel(verbs_);
  if (completion_channel_ == nullptr) return fail("no completion channel");
  cm_channel_ = rdma_create_event_channel();
  if (cm_channel_ == nullptr) return fail("no channel for connection events");
  if (!inbox_->open()) return fail("no eventfd");
  make_nonblocking(completion_channel_->fd);
  make_nonblocking(cm_channel_->fd);
  timer_fd_ = OwnedFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_ = OwnedFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!timer_fd_ || !epoll_) return fail("no epoll or timer");
  for (const int fd : {completion_channel_->fd, cm_channel_->fd, inbox_->fd(), timer_fd_.number()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, fd, &event) != 0) return fail("epoll_ctl");
  }
  return {};
}

Reactor::~Reactor() {
  for (auto& shard : shards_) ibv_destroy_cq(shard->queue);
  if (completion_channel_ != nullptr) ibv_destroy_comp_channel(completion_channel_);
  if (cm_channel_ != nullptr) rdma_destroy_event_channel(cm_channel_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
}

Result<CompletionShard*> Reactor::add_shard(std::uint32_t entries) {
  auto shard = std::make_unique<CompletionShard>();
  shard->queue = ibv_create_cq(verbs_, static_cast<int>(entries), nullptr, completion_channel_, 0);
  if (shard->queue == nullptr) {
    return Error(Code::kSystem, During::kOpen, errno)
        .with_peer(device_.name)
        .with_note("no completion queue of " + std::to_string(entries) + " entries");
  }
  shard->entries = static_cast<std::uint32_t>(shard->queue->cqe);
  shards_.push_back(std::move(shard));
  return shards_.back().get();
}

Result<CompletionShard*> Reactor::reserve_completions(std::uint32_t entries) {
  for (auto& shard : shards_) {
    if (shard->entries - shard->reserved < entries) continue;
    shard->reserved += entries;
    return shard.get();
  }
  const auto most = static_cast<std::uint32_t>(limits_.max_cqe);
  auto shard = add_shard(std::min(most, std::max(entries, shards_.back()->entries * 2)));
  if (!shard) return shard.error();
  if ((*shard)->entries < entries) {
    return Error(Code::kNotSupported, During::kOpen)
        .with_peer(device_.name)
        .with_note("its completion queues are smaller than the depths of one endpoint");
  }
  (*shard)->reserved += entries;
  return *shard;
}

std::size_t Reactor::poll_completions() {
  std::array<ibv_wc, kBatch> completions;
  std::size_t total = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (int round = 0; round < kBatchesInATurn; ++round) {
      const int count = ibv_poll_cq(shards_[i]->queue, kBatch, completions.data());
      for (int n = 0; n < count; ++n) {
        auto* completion = reinterpret_cast<Completion*>(completions[static_cast<std::size_t>(n)].wr_id);
        completion->arrive(completion, completions[static_cast<std::size_t>(n)]);
      }
      if (count > 0) {
        total += static_cast<std::size_t>(count);
        shards_[i]->passed += static_cast<std::uint64_t>(count);
      }
      if (count < kBatch) {
        shards_[i]->passed += shards_[i]->entries;
        break;
      }
    }
  }
  return total;
}

bool Reactor::take_cm_events() {
  bool any = false;
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(cm_channel_, &event) == 0) {
    any = true;
    // Copy the event, because an id can be destroyed only after its events are acknowledged.
    rdma_cm_event copy = *event;
    std::array<std::byte, 256> octets{};
    const bool datagram = event->id->ps == RDMA_PS_UDP || event->id->ps == RDMA_PS_IPOIB;
    if (!datagram && event->param.conn.private_data != nullptr) {
      const std::size_t length = std::min<std::size_t>(event->param.conn.private_data_len, octets.size());
      std::copy_n(static_cast<const std::byte*>(event->param.conn.private_data), length, octets.begin());
      copy.param.conn.private_data = octets.data();
    }
    auto* target = static_cast<CmTarget*>(
        event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id->context : event->id->context);
    rdma_ack_cm_event(event);
    if (target != nullptr) target->handle_event(copy);
  }
  return any;
}

// Null waits without a timeout. Uses epoll_pwait2 (Linux 5.11) if available, for timeouts below a
// millisecond.
int Reactor::wait_for_files(std::span<epoll_event> ready, const timespec* most) {
  const int room = static_cast<int>(ready.size());
  if (!old_kernel_) {
    const int count = ::epoll_pwait2(epoll_.number(), ready.data(), room, most, nullptr);
    if (count >= 0 || errno == EINTR) return count;
    old_kernel_ = true;
  }
  pollfd file{epoll_.number(), POLLIN, 0};
  ::ppoll(&file, 1, most, nullptr);
  return ::epoll_wait(epoll_.number(), ready.data(), room, 0);
}

// Checks only the ready files, because each check is a system call. An event that stays pending is seen the
// next time.
void Reactor::take_file_events(const timespec* most) {
  std::array<epoll_event, 4> ready;
  const int count = wait_for_files(ready, most);
  armed_ = false;
  // Restart the measurement, so that the sleep does not count as slow turns.
  looked_ = Clock::now();
  idle_turns_ = busy_turns_ = 0;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    if (fd == completion_channel_->fd) {
      has_completion_event_ = true;
    } else if (fd == timer_fd_.number()) {
      std::uint64_t expirations = 0;
      [[maybe_unused]] const auto size = ::read(fd, &expirations, sizeof(expirations));
    } else if (fd == cm_channel_->fd) {
      idle_turns_ = busy_turns_ = std::max(kIdleTurnsToLook, kBusyTurnsToLook);
    }
  }
}

bool Reactor::fire_timers() {
  if (timers_.empty()) return false;
  // Reading the clock costs as much as an idle turn. Skip it while the next timer is many turns away.
  if (turns_to_clock_ != 0 && timers_.next() >= next_seen_) {
    --turns_to_clock_;
    return false;
  }
  const Clock::time_point now = Clock::now();
  bool any = false;
  while (timers_.fire_one(now)) any = true;
  turns_to_clock_ = 0;
  if (timers_.empty()) return any;
  next_seen_ = timers_.next();
  turns_to_clock_ = static_cast<std::uint32_t>(
      std::clamp<Clock::rep>((next_seen_ - now) / kLongTurn, 0, kTurnsWithoutClock));
  return any;
}

void Reactor::resume_ready() {
  // Operations that become ready meanwhile continue in the same turn, so that chains of waiters do not wait
  // for the devices. The number of rounds is bounded.
  for (int round = 0; round < kRoundsInATurn && !ready_.empty(); ++round) {
    running_.splice(ready_);
    while (Operation* operation = running_.pop_front()) operation->continuation_.resume();
  }
}

void Reactor::complete_yielding() {
  List<Operation> now;
  now.splice(yielding_);
  while (Operation* operation = now.pop_front()) operation->complete();
}

void Reactor::settle_all() {
  List<Settler> now;
  now.splice(flushing_);
  while (Settler* settler = now.pop_front()) settler->settle();
  now.splice(settling_);
  while (Settler* settler = now.pop_front()) settler->settle();
}

void Reactor::let_go() {
  while (Resident* resident = leaving_.pop_front()) {
    --resident_count_;
    Ref<Resident> last(resident);
    // Drop the reference that move_in took.
    Ref<Resident>::release_one(resident);
  }
}

bool Reactor::look_around() {
  const Clock::time_point now = Clock::now();
  const Clock::duration a_turn = (now - looked_) / (idle_turns_ + busy_turns_);
  idle_turns_to_look_ = static_cast<std::uint32_t>(std::clamp<Clock::rep>(
      kLooksApart / std::max(a_turn, Clock::duration(1)), 1, Clock::rep{kIdleTurnsToLook}));
  looked_ = now;
  idle_turns_ = busy_turns_ = 0;
  return take_cm_events();
}

bool Reactor::turn() {
  if (closed_) return false;
  if (turning_) broken_contract("Context::poll was called by a coroutine that it had resumed");
  const Ref<Reactor> self(this);
  const Inside inside(*this);
  turning_ = true;
  owner_.store(this_thread(), std::memory_order_relaxed);
  bool any = poll_completions() != 0;
  if (any ? ++busy_turns_ >= kBusyTurnsToLook : ++idle_turns_ >= idle_turns_to_look_) any |= look_around();
  bool handled = false;  // the program's code ran
  if (inbox_->flagged()) {
    handled = true;
    inbox_->drain();
  }
  handled |= fire_timers();
  if (!yielding_.empty()) complete_yielding();
  if (!ready_.empty()) {
    handled = true;
    resume_ready();
  }
  if (wakes_waiting) [[unlikely]] {
    handled = true;
    resume_wakes();
  }
  if (handled) turns_to_clock_ = std::min(turns_to_clock_, kTurnsWithHandlers);
  any |= handled;
  if (unsettled()) settle_all();
  if (!leaving_.empty()) let_go();
  turning_ = false;
  // Settling may have made operations ready; do not sleep in that case.
  return any || !ready_.empty() || unsettled() || !yielding_.empty() || wakes_waiting;
}

void Reactor::take_completion_event() {
  if (!std::exchange(has_completion_event_, false)) return;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completion_channel_, &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
}

// Take the completion event before re-arming. Its completions are read by the next turn.
void Reactor::arm_queues() {
  take_completion_event();
  for (auto& shard : shards_) ibv_req_notify_cq(shard->queue, 0);
}

bool Reactor::arm() {
  armed_ = true;
  arm_queues();
  if (!ready_.empty() || !yielding_.empty() || unsettled() || wakes_waiting || inbox_->flagged())
    return false;
  if (!timers_.empty()) {
    const auto left = timers_.next().time_since_epoch();
    itimerspec spec{};
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = std::max<long>(1, (left - seconds).count());
    ::timerfd_settime(timer_fd_.number(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }
  // Completions from before the queues were armed raise no event, so poll once more.
  const bool quiet = !turn();
  turns_to_clock_ = 0;  // the caller may sleep for long
  return quiet;
}

// Returns false if there is something to do.
bool Reactor::sleep(Clock::time_point until) {
  arm_queues();
  if (turn()) return false;
  turns_to_clock_ = 0;
  if (!timers_.empty()) until = std::min(until, timers_.next());
  timespec left{};
  const bool timed = until != Clock::time_point::max();
  if (timed) {
    const auto duration = std::max(Clock::duration::zero(), until - Clock::now());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
    left.tv_sec = seconds.count();
    left.tv_nsec = (duration - seconds).count();
  }
  take_file_events(timed ? &left : nullptr);
  return true;
}

bool Reactor::wait(Clock::time_point until) {
  const Ref<Reactor> self(this);
  const Inside inside(*this);
  const Wait::Way way = options_.wait.way;
  // If the last wait slept, nothing was pending before it. Arming the queues and then polling is enough.
  const bool sleeps_at_once =
      std::exchange(slept_, false) && way == Wait::Way::kEvent && Clock::now() < until;
  if (!sleeps_at_once && turn()) return true;
  if (way == Wait::Way::kPoll) return false;
  if (way == Wait::Way::kSpinThenEvent) {
    const auto spin_until = std::min(until, Limit(options_.wait.spin).at());
    do {
      for (int i = 0; i < kTurnsOfASpin; ++i) {
        if (turn()) return true;
      }
    } while (Clock::now() < spin_until);
  }
  if (Clock::now() >= until) return false;
  slept_ = sleep(until);
  return !slept_ || turn();
}

bool Reactor::look_and_turn() {
  constexpr timespec kAtOnce{};
  take_file_events(&kAtOnce);
  take_completion_event();
  return turn();
}

void Reactor::request_stop(Operation* operation) {
  if (owner_.load(std::memory_order_relaxed) == this_thread()) {
    operation->give_up(Code::kCancelled);
  } else {
    inbox_->add(operation);
  }
}

void Reactor::look_up(HostPort address, std::function<void(Result<SocketAddress>)> found) {
  look_up_all(std::move(address), [found = std::move(found)](Result<std::vector<SocketAddress>> all) {
    found(all ? Result<SocketAddress>(all->front()) : Result<SocketAddress>(all.error()));
  });
}

void Reactor::look_up_all(HostPort address, std::function<void(Result<std::vector<SocketAddress>>)> found) {
  const std::uint64_t number = next_look_up_++;
  look_ups_.emplace(number, std::move(found));
  // The thread may outlive this reactor. The inbox makes the call only while the reactor drains it.
  std::thread([this, inbox = inbox_, number, address = std::move(address)] {
    Result<std::vector<SocketAddress>> result = detail::look_up_all(address);
    inbox->add([this, number, result = std::move(result)] {
      if (auto call = look_ups_.extract(number)) call.mapped()(result);
    });
  }).detach();
}

void Reactor::add_pool(PoolState* pool) { pools_.push_back(pool); }

void Reactor::move_in(Resident* resident) {
  Ref<Resident>::hold_one(resident);
  ++resident_count_;
  residents_.push_back(resident);
}

void Reactor::move_out(Resident* resident) {
  static_cast<Link*>(resident)->unlink();
  leaving_.push_back(resident);
}

void Reactor::shut_down() {
  if (closed_) return;
  const Ref<Reactor> self(this);
  const auto lingering = [this] {
    for (Resident* resident = residents_.front(); resident != nullptr;
         resident = residents_.after(resident)) {
      if (resident->lingering()) return true;
    }
    return false;
  };
  if (!turning_) {
    const Clock::time_point until = Limit(options_.linger).at();
    while (lingering() && Clock::now() < until) wait(until);
  }
  closed_ = true;
  while (Resident* resident = residents_.front()) resident->shut_down();
  for (PoolState* pool = pools_.front(); pool != nullptr; pool = pools_.after(pool)) pool->shut_down();
  pool_.reset();
  for (const auto& [number, call] : std::exchange(look_ups_, {}))
    call(Error(Code::kClosed, During::kConnect));
  while (timers_.fire_one(Clock::time_point::max())) {
  }
  if (turning_) return;
  turning_ = true;
  while (!ready_.empty() || wakes_waiting) {
    resume_ready();
    if (wakes_waiting) resume_wakes();
  }
  settle_all();
  let_go();
  turning_ = false;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
