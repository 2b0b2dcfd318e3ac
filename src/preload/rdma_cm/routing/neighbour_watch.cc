#include "preload/rdma_cm/routing/neighbour_watch.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "base/raw_syscall.h"
#include "host/clock.h"

namespace rrdma::rdma_cm {
namespace {

// The link usually answers within a millisecond; a late answer needs no fast poll.
constexpr Duration kFirstLook = milliseconds(1);
constexpr Duration kLooks = milliseconds(20);
constexpr Duration kSeekAgain = milliseconds(1000);

void rest(Duration time) {
  const timespec span{time.ns / 1'000'000'000, time.ns % 1'000'000'000};
  raw::ppoll(nullptr, 0, &span);
}

}  // namespace

void NeighbourWatch::wait(const NextHop& hop, Instant deadline, Done done) {
  seek_neighbour(hop);
  {
    const std::lock_guard lock(mutex_);
    if (running_ || start()) {
      running_ = true;
      waits_.push_back({hop, deadline, host::now() + kSeekAgain, std::move(done)});
      return;
    }
  }
  done(true);
}

// REQUIRES: the lock.
bool NeighbourWatch::start() {
  // Block all signals: none of the program's signals may be handled on this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = false;
  try {
    std::thread thread([this] { run(); });
    pthread_setname_np(thread.native_handle(), "rrdma-address");
    thread.detach();
    started = true;
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void NeighbourWatch::run() {
  Duration pause = kFirstLook;
  for (;;) {
    rest(pause);
    pause = std::min(pause + pause, kLooks);
    for (auto& [done, found] : look(host::now())) done(found);
    const std::lock_guard lock(mutex_);
    if (!waits_.empty()) continue;
    running_ = false;
    return;
  }
}

std::vector<std::pair<NeighbourWatch::Done, bool>> NeighbourWatch::look(Instant now) {
  std::vector<std::pair<Done, bool>> ended;
  const std::lock_guard lock(mutex_);
  std::erase_if(waits_, [&](Wait& one) {
    const NeighbourState state = state_of_neighbour(one.hop);
    if (state == NeighbourState::kKnown || now >= one.deadline) {
      ended.emplace_back(std::move(one.done), state == NeighbourState::kKnown);
      return true;
    }
    if (state == NeighbourState::kUnknown && now >= one.seek_at) {
      seek_neighbour(one.hop);
      one.seek_at = now + kSeekAgain;
    }
    return false;
  });
  return ended;
}

}  // namespace rrdma::rdma_cm
