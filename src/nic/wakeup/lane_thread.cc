#include "nic/wakeup/lane_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/raw_syscall.h"
#include "host/clock.h"
#include "nic/wakeup/last_thread.h"

namespace rrdma::nic {
namespace {

// Between two looks while the kernel cannot wake the thread.
constexpr long kNapNs = 10'000'000;

enum Source : std::uint32_t { kLink, kControl, kRing };

[[nodiscard]] bool watch(int epoll, int fd, Source source, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{source} << 32 | static_cast<std::uint32_t>(fd);
  return raw::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

Source source_of(const epoll_event& event) { return static_cast<Source>(event.data.u64 >> 32); }
int descriptor_of(const epoll_event& event) {
  return static_cast<int>(static_cast<std::uint32_t>(event.data.u64));
}

}  // namespace

EpollSleeper::EpollSleeper()
    : everything_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))),
      no_links_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))),
      ring_(lifted(raw::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  valid_ = watch(everything_.get(), ring_.get(), kRing, EPOLLIN) &&
           watch(no_links_.get(), ring_.get(), kRing, EPOLLIN);
}

// Edge-triggered: while the program drains the socket by itself, unread data must not wake the thread
// repeatedly.
void EpollSleeper::add_link(int fd) { valid_ &= watch(everything_.get(), fd, kLink, EPOLLIN | EPOLLET); }

void EpollSleeper::add_control(int fd) {
  valid_ &= watch(everything_.get(), fd, kControl, EPOLLIN) && watch(no_links_.get(), fd, kControl, EPOLLIN);
}

void EpollSleeper::add_feed(int fd) {
  valid_ &= watch(everything_.get(), fd, kLink, EPOLLIN) && watch(no_links_.get(), fd, kLink, EPOLLIN);
}

void EpollSleeper::set_sockets(std::span<const int> sockets) {
  const std::lock_guard lock(sockets_mutex_);
  if (watched_) remove_sockets();
  sockets_.assign(sockets.begin(), sockets.end());
  deaf_ = false;
  if (watched_) add_sockets();
  if (deaf_) valid_ = false;
}

// If data is already there, the next wait reports it.
void EpollSleeper::add_sockets() {
  bool all = true;
  for (const int fd : sockets_) all &= watch(everything_.get(), fd, kLink, EPOLLIN | EPOLLET);
  deaf_ = !all;
}

void EpollSleeper::remove_sockets() {
  for (const int fd : sockets_) (void)raw::epoll_ctl(everything_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EpollSleeper::watch_sockets(bool wanted) {
  const std::lock_guard lock(sockets_mutex_);
  if (wanted == watched_) return;
  watched_ = wanted;
  if (wanted) {
    add_sockets();
  } else {
    remove_sockets();
  }
}

Instant EpollSleeper::now() { return host::now(); }

Sleeper::Woken EpollSleeper::sleep(Watch watched, Instant deadline) {
  const bool everything = watched == Watch::kEverything;
  watch_sockets(everything);
  const bool deaf = everything && deaf_;
  const Duration most = deaf ? Duration{kNapNs} : seconds(3600);
  const Duration left = deadline == kNever ? most : deadline - host::now();
  const std::int64_t ns = std::clamp<std::int64_t>(left.ns, 0, most.ns);
  const timespec timeout{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  const int count = wait(everything ? everything_.get() : no_links_.get(), timeout);
  Woken woken{.by_event = count != 0};
  std::size_t links = 0;
  for (const epoll_event& event : std::span(events_).first(static_cast<std::size_t>(count))) {
    woken.by_control |= source_of(event) == kControl;
    if (source_of(event) == kLink) links_[links++] = descriptor_of(event);
  }
  if (deaf) links = add_unheard(links);
  woken.links = std::span(links_).first(links);
  return woken;
}

// Nothing tells what has arrived at sockets that are not in the set.
std::size_t EpollSleeper::add_unheard(std::size_t links) {
  const std::lock_guard lock(sockets_mutex_);
  for (const int fd : sockets_) {
    if (links < links_.size()) links_[links++] = fd;
  }
  return links;
}

// The program has closed our descriptors in a way that cannot be hooked. Only the clock is left: requests end
// by their timeouts, and the thread does not spin.
int EpollSleeper::nap(const timespec& timeout) {
  const timespec pause{.tv_sec = 0,
                       .tv_nsec = timeout.tv_sec != 0 ? kNapNs : std::min(timeout.tv_nsec, kNapNs)};
  (void)raw::ppoll(nullptr, 0, &pause);
  return 0;
}

int EpollSleeper::wait(int epoll, const timespec& timeout) {
  const int room = static_cast<int>(events_.size());
  if (has_pwait2_) {
    const int count = raw::epoll_pwait2(epoll, events_.data(), room, &timeout);
    if (count >= 0 || errno == EINTR) return std::max(count, 0);
    if (errno == EBADF || errno == EINVAL) return nap(timeout);
    has_pwait2_ = false;  // an old kernel, or a filter that does not know the call
  }
  pollfd one{.fd = epoll, .events = POLLIN, .revents = 0};
  if (raw::ppoll(&one, 1, &timeout) <= 0) return 0;
  const int count = raw::epoll_wait(epoll, events_.data(), room, 0);
  return count < 0 && errno != EINTR ? nap(timeout) : std::max(count, 0);
}

void EpollSleeper::ring() {
  const std::uint64_t one = 1;
  static_cast<void>(raw::write(ring_.get(), &one, sizeof one));
}

bool EpollSleeper::take_ring() {
  std::uint64_t count;
  return raw::read(ring_.get(), &count, sizeof count) == sizeof count;
}

void EpollSleeper::yield() { (void)raw::sched_yield(); }

bool has_one_core() { return sysconf(_SC_NPROCESSORS_ONLN) < 2; }

bool LaneThread::start(Duty& duty) {
  // Signals belong to the program: block them on this thread.
  sigset_t all, before;
  sigfillset(&all);
  // Faults in guarded copies must reach the handler on the thread that faulted.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this, &duty] {
      const OwnThread own;
      while (wakeup_.turn(duty)) {
      }
    });
  } catch (const std::system_error&) {
    // joinable() reports the failure.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread_.joinable()) return false;
  pthread_setname_np(thread_.native_handle(), "rrdma-nic");
  return true;
}

void LaneThread::stop() {
  if (!thread_.joinable()) return;
  wakeup_.stop();
  thread_.join();
}

}  // namespace rrdma::nic
