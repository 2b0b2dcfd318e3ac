#include "daemon/event_loop.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"

namespace rrdma::daemon {
namespace {

constexpr std::size_t kBatch = 64;
constexpr Duration kWaitMax = seconds(3600);

epoll_event event_for(int fd, std::uint32_t generation, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{generation} << 32 | static_cast<std::uint32_t>(fd);
  return event;
}

}  // namespace

EventLoop::EventLoop() : epoll_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))) { RRDMA_ASSERT(epoll_.valid()); }

void EventLoop::watch(int fd, std::uint32_t events, Handler handler) {
  const auto [place, is_new] = watches_.try_emplace(fd, Watch{++last_generation_, std::move(handler)});
  RRDMA_ASSERT(is_new);
  epoll_event event = event_for(fd, place->second.generation, events);
  RRDMA_ASSERT(raw::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
}

void EventLoop::change(int fd, std::uint32_t events) {
  const auto found = watches_.find(fd);
  RRDMA_ASSERT(found != watches_.end());
  epoll_event event = event_for(fd, found->second.generation, events);
  RRDMA_ASSERT(raw::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void EventLoop::forget(int fd) {
  if (watches_.erase(fd) == 0) return;
  (void)raw::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::run_once(Instant deadline) {
  const Duration wait = std::clamp(deadline - std::min(deadline, now()), Duration{}, kWaitMax);
  // Rounded up, so that the deadline has passed after the wait.
  const int wait_ms = static_cast<int>((wait.ns + 999'999) / 1'000'000);
  std::array<epoll_event, kBatch> events;
  const int count = raw::epoll_wait(epoll_.get(), events.data(), kBatch, wait_ms);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const auto found = watches_.find(static_cast<int>(event.data.u64 & 0xffffffff));
    if (found == watches_.end() || found->second.generation != event.data.u64 >> 32) continue;
    // A copy, because the handler may remove itself.
    const Handler handler = found->second.handler;
    handler(event.events);
  }
}

Instant EventLoop::now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

}  // namespace rrdma::daemon
