#include "completions.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "verdict.h"

namespace proof {
namespace {

constexpr int kPollsBeforeSleep = 200;

}  // namespace

Completions::Completions(Device& device, int entries, bool events) {
  if (events) {
    channel_ = ibv_create_comp_channel(device.context());
    if (channel_ == nullptr) fail_errno("ibv_create_comp_channel");
    if (::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0) fail_errno("fcntl");
  }
  cq_ = device.create_cq(entries, channel_);
}

Completions::~Completions() {
  if (const int error = ibv_destroy_cq(cq_); error != 0) fail("ibv_destroy_cq: " + std::to_string(error));
  if (channel_ != nullptr && ibv_destroy_comp_channel(channel_) != 0) fail("ibv_destroy_comp_channel");
}

int Completions::poll(ibv_wc* into, int room) {
  constexpr int kNobodys = 4095;  // no call returns this errno
  errno = kNobodys;
  const int count = ibv_poll_cq(cq_, room, into);
  if (count < 0) fail("ibv_poll_cq failed");
  if (errno != kNobodys) fail_errno("ibv_poll_cq succeeded and changed errno");
  return count;
}

int Completions::wait(ibv_wc* into, int room, double seconds) {
  return channel_ != nullptr ? wait_sleeping(into, room, seconds) : wait_polling(into, room, seconds);
}

int Completions::wait_polling(ibv_wc* into, int room, double seconds) {
  const double until = monotonic_seconds() + seconds;
  for (int polls = 1;; ++polls) {
    if (const int count = poll(into, room); count != 0) return count;
    if (polls % kPollsBeforeSleep != 0) continue;
    if (monotonic_seconds() > until) return 0;
    // sched_yield would let every computing program run for its whole slice: beside eight of them a poller
    // gets 3 % of a core (Linux 6.18). And threads that only yield to each other starve everything else.
    ::usleep(1);
  }
}

int Completions::wait_sleeping(ibv_wc* into, int room, double seconds) {
  const double until = monotonic_seconds() + seconds;
  for (;;) {
    if (const int count = poll(into, room); count != 0) return count;
    if (ibv_req_notify_cq(cq_, 0) != 0) fail("ibv_req_notify_cq");
    if (const int count = poll(into, room); count != 0) return count;
    const double left = until - monotonic_seconds();
    if (left <= 0) return 0;
    pollfd wait{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::ceil(left * 1000)));
    if (ready < 0 && errno != EINTR) fail_errno("poll");
    if (ready <= 0) continue;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &context) == 0) {
      if (cq != cq_) fail("an event of another completion queue");
      ibv_ack_cq_events(cq, 1);
    } else if (errno != EAGAIN) {
      fail_errno("ibv_get_cq_event");
    }
  }
}

ibv_wc Completions::take(double seconds) {
  ibv_wc completion{};
  if (wait(&completion, 1, seconds) == 0) fail("no completion within " + std::to_string(seconds) + " s");
  return completion;
}

}  // namespace proof
