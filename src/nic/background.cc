#include "nic/background.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/raw_syscall.h"
#include "host/clock.h"

namespace rrdma::nic {
namespace {

constexpr unsigned kWakeupsBeforeStandBy = 8;
constexpr Duration kFirstTick = microseconds(100);
constexpr Duration kTick = microseconds(500);
// Who calls more seldom hardly polls. A call may take long by itself: to send 64 KiB takes 13 us.
constexpr Duration kBetweenCalls = microseconds(50);
// A program that polls looks again sooner, unless another has its core.
constexpr Duration kTardy = microseconds(50);
constexpr Duration kShortStay = milliseconds(10);
constexpr Duration kPauseMax = seconds(1);

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
      wake_(lifted(raw::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      one_core_(sysconf(_SC_NPROCESSORS_ONLN) < 2) {
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
  kick();
  thread_.join();
}

// While kicked_ is set, a count is in wake_ or about to be. It is cleared once the count has been taken, and
// before the work that the kick asks for: a kick that comes in between is served by that work.
void Background::kick() {
  if (kicked_.exchange(true)) return;
  const std::uint64_t one = 1;
  static_cast<void>(raw::write(wake_.get(), &one, sizeof one));
}

int Background::wait(int epoll, Instant deadline) {
  timespec timeout{};
  const Duration left = deadline == kNever ? seconds(3600) : deadline - host::now();
  const std::int64_t ns = std::clamp<std::int64_t>(left.ns, 0, seconds(3600).ns);
  timeout.tv_sec = ns / 1'000'000'000;
  timeout.tv_nsec = ns % 1'000'000'000;
  const int count = wait_for_events(epoll, timeout);
  for (int i = 0; i < count; ++i)
    control_ready_ |= source_of(events_[static_cast<std::size_t>(i)]) == kControl;
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
    return;
  }
  const int count = wait(epoll_all_.get(), deadline);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<std::size_t>(i)];
    if (source_of(event) == kLink)
      work.note_arrival(static_cast<int>(static_cast<std::uint32_t>(event.data.u64)));
  }
  work.disarm();
}

// Deadlines are the program's while it polls: to come back for each would cost it the wake-ups, and the
// doorbells armed for them, that standing by is there to spare it. Why it came to an end.
Background::End Background::watch_program(BackgroundWork& work) {
  for (Duration tick = kFirstTick;; tick = kTick) {
    const std::uint64_t before = calls_.load(std::memory_order_relaxed);
    const int events = wait(epoll_quiet_.get(), host::now() + tick);
    if (stopping_.load(std::memory_order_relaxed) || control_ready_) return End::kCalledAway;
    if (events != 0) return End::kNeeded;
    Instant deadline = kNever;
    if (!work.tick() && host::now().ns - last_look_ns_.load(std::memory_order_relaxed) > kTardy.ns &&
        work.work(deadline))
      return End::kNeeded;
    if (calls_.load(std::memory_order_relaxed) - before <
        static_cast<std::uint64_t>(tick.ns / kBetweenCalls.ns))
      return End::kNeeded;
  }
}

// Whether the program looks by itself when something arrives is seen by trying: one that spins on its memory
// between polls does not, and something waits for it. Then the next try comes later, and later again.
void Background::stand_by(BackgroundWork& work) {
  const Instant begin = host::now();
  standing_by_.store(true, std::memory_order_relaxed);
  const End end = watch_program(work);
  standing_by_.store(false, std::memory_order_relaxed);
  work.resume();
  if (end == End::kCalledAway) return;
  const Instant left = host::now();
  pause_ = left - begin < kShortStay ? std::min(Duration{pause_.ns * 2}, kPauseMax) : kPauseMin;
  not_before_ = left + pause_;
}

void Background::run(BackgroundWork& work) {
  std::uint64_t calls_seen = 0;
  unsigned wakeups = 0;  // in a row, of a program that polls
  for (;;) {
    std::uint64_t count;
    if (kicked_.load() && raw::read(wake_.get(), &count, sizeof count) == sizeof count)
      kicked_.exchange(false);
    if (stopping_.load()) return;  // after the kick that tells of it may have been taken
    if (std::exchange(control_ready_, false)) work.handle_control();
    Instant deadline = kNever;
    work.work(deadline);
    const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
    wakeups = calls != calls_seen ? wakeups + 1 : 0;
    if (wakeups >= kWakeupsBeforeStandBy && !one_core_ && host::now() >= not_before_) {
      stand_by(work);
      wakeups = 0;
    } else {
      sleep_on_links(work, deadline);
    }
    calls_seen = calls;
  }
}

}  // namespace rrdma::nic
