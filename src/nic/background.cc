#include "nic/background.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/raw_syscall.h"
#include "nic/clock.h"

namespace rrdma::nic {
namespace {

constexpr unsigned kIdleWakeupsBeforeStandBy = 8;
constexpr Duration kTick = microseconds(500);
// A program that polls looks once in less than that, even where this thread has just taken its core.
constexpr Duration kJustBefore = microseconds(5);
// So many polls have looked at every link and at the timers (ProcessLane::progress).
constexpr std::uint64_t kPollsThatLook = 8;

enum Source : std::uint32_t { kLink, kControl, kWake };

void watch(int epoll, int fd, Source source, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{source} << 32 | static_cast<std::uint32_t>(fd);
  RRDMA_ASSERT(raw::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

Source source_of(const epoll_event& event) { return static_cast<Source>(event.data.u64 >> 32); }

}  // namespace

Background::Background()
    : epoll_all_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))),
      epoll_quiet_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))),
      wake_(lifted(raw::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  watch(epoll_all_.get(), wake_.get(), kWake, EPOLLIN);
  watch(epoll_quiet_.get(), wake_.get(), kWake, EPOLLIN);
}

Background::~Background() { stop(); }

// Edge-triggered: while the program drains the socket by itself, what it has not read yet does not wake
// this thread again and again.
void Background::add_link_descriptor(int fd) { watch(epoll_all_.get(), fd, kLink, EPOLLIN | EPOLLET); }

void Background::add_control_descriptor(int fd) {
  watch(epoll_all_.get(), fd, kControl, EPOLLIN);
  watch(epoll_quiet_.get(), fd, kControl, EPOLLIN);
}

void Background::start(BackgroundWork& work) {
  // The program's signals are the program's: none is handled on this thread.
  sigset_t all, before;
  sigfillset(&all);
  // Faults in guarded copies must reach the handler on the thread that faulted.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, &work] { run(work); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "rrdma-nic");
}

void Background::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  kicked_.store(false);
  kick();
  thread_.join();
}

void Background::kick() {
  if (kicked_.exchange(true)) return;
  const std::uint64_t one = 1;
  static_cast<void>(raw::write(wake_.get(), &one, sizeof one));
}

int Background::wait(int epoll, Instant deadline) {
  timespec timeout{};
  const Duration left = deadline == kNever ? seconds(3600) : deadline - now();
  const std::int64_t ns = std::clamp<std::int64_t>(left.ns, 0, seconds(3600).ns);
  timeout.tv_sec = ns / 1'000'000'000;
  timeout.tv_nsec = ns % 1'000'000'000;
  const int count = wait_for_events(epoll, timeout);
  for (int i = 0; i < count; ++i) control_ready_ |= source_of(events_[static_cast<std::size_t>(i)]) == kControl;
  return count;
}

int Background::wait_for_events(int epoll, const timespec& timeout) {
  const int room = static_cast<int>(events_.size());
  if (has_pwait2_) {
    const int count = raw::epoll_pwait2(epoll, events_.data(), room, &timeout);
    if (count >= 0 || errno == EINTR) return std::max(count, 0);
    has_pwait2_ = false;  // an old kernel, or a filter that does not know the call
  }
  pollfd one{.fd = epoll, .events = POLLIN, .revents = 0};
  if (raw::ppoll(&one, 1, &timeout) <= 0) return 0;
  return std::max(raw::epoll_wait(epoll, events_.data(), room, 0), 0);
}

void Background::sleep_on_links(BackgroundWork& work, Instant deadline) {
  if (!work.arm()) {
    work.disarm();
    idle_wakeups_ = 0;
    return;
  }
  const Instant asleep = now();  // before, the program may have had no core to look with
  const int count = wait(epoll_all_.get(), deadline);
  const std::int64_t could_look = std::max(asleep.ns, last_look_ns_.load(std::memory_order_relaxed));
  program_looked_ = now().ns - could_look < kJustBefore.ns;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<std::size_t>(i)];
    if (source_of(event) == kLink) work.note_arrival(static_cast<int>(static_cast<std::uint32_t>(event.data.u64)));
  }
  work.disarm();
}

// Deadlines are the program's while it polls: to come back for each would cost it the wake-ups, and the
// doorbells armed for them, that standing by is there to spare it.
void Background::stand_by(BackgroundWork& work) {
  standing_by_.store(true, std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t before = polls_.load(std::memory_order_relaxed);
    const int events = wait(epoll_quiet_.get(), now() + kTick);
    work.tick();
    const bool looked = polls_.load(std::memory_order_relaxed) - before >= kPollsThatLook;
    if (events != 0 || stopping_.load(std::memory_order_relaxed) || !looked) break;
  }
  standing_by_.store(false, std::memory_order_relaxed);
}

void Background::run(BackgroundWork& work) {
  std::uint64_t polls_seen = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (kicked_.exchange(false)) {
      std::uint64_t count;
      static_cast<void>(raw::read(wake_.get(), &count, sizeof count));
    }
    if (std::exchange(control_ready_, false)) work.handle_control();
    Instant deadline = kNever;
    const bool did = work.work(deadline);
    const std::uint64_t polls = polls_.load(std::memory_order_relaxed);
    idle_wakeups_ = polls != polls_seen && (!did || program_looked_) ? idle_wakeups_ + 1 : 0;
    polls_seen = polls;
    if (idle_wakeups_ >= kIdleWakeupsBeforeStandBy) {
      stand_by(work);
      idle_wakeups_ = 0;
    } else {
      sleep_on_links(work, deadline);
    }
  }
}

}  // namespace rrdma::nic
