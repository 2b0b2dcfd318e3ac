#include "nic/wakeup/wakeup.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace rrdma::nic {
namespace {

// While the program calls, it does the thread's work itself, so the thread waits politely.
class PoliteGuard {
 public:
  explicit PoliteGuard(LaneLock& lock) : lock_(lock) { lock_.lock_politely(); }
  ~PoliteGuard() { lock_.unlock(); }
  PoliteGuard(const PoliteGuard&) = delete;
  PoliteGuard& operator=(const PoliteGuard&) = delete;

 private:
  LaneLock& lock_;
};

}  // namespace

// ---- under the lane's lock ----

bool WakeUp::note_arrivals(bool message, Instant now, Caller caller) {
  answers_.note_time(now);
  if (message) answers_.note_message(now);
  return holds_answers(now, caller);
}

// Hold answers only if some thread is certain to poll again: the program may not call any more.
bool WakeUp::holds_answers(Instant now, Caller caller) const {
  if (!answers_.expects_reply() || one_core_) return false;
  return caller == Caller::kThread || standing_by() || attending() || wakes_at_ <= now + kReplyWatch;
}

// The thread sleeps until the last deadline that it saw. The caller may sleep next, too. A post or poll may
// bring an earlier deadline (a timeout, the delay after an RNR NAK): without a kick no thread would handle
// it.
void WakeUp::note_deadline(Instant deadline) {
  if (!sleeps_beyond(deadline)) return;
  wakes_at_ = deadline;
  kick();
}

void WakeUp::outgrow_doorbells() {
  doorbells_requested_ = false;
  doorbells_->suppress();
  kick();
}

// ---- any thread ----

// While kicked_ is set, a ring is in the sleeper or about to be.
void WakeUp::kick() {
  if (!kicked_.exchange(true)) sleeper_.ring();
}

void WakeUp::stop() {
  stopping_.store(true);
  kick();
}

// ---- the thread ----

bool WakeUp::turn(Duty& duty) {
  if (standing_by()) {
    tick(duty);
    return true;
  }
  take_kick();
  if (stopping_.load()) return false;  // checked after the kick, which may announce it
  if (std::exchange(control_ready_, false)) duty.handle_control();
  Duty::Served served = serve(duty);
  const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
  wakeups_ = calls != calls_seen_ ? wakeups_ + 1 : 0;
  calls_seen_ = calls;
  if (served.received && armed_again() && !one_core_ && attention_.wanted(served.now)) {
    attend(duty);
    if (stopping_.load()) return false;
    served = serve(duty);
    wakeups_ = 0;
  }
  if (wakeups_ >= kWakeupsBeforeStandBy && !one_core_ && sleeper_.now() >= not_before_) {
    begin_stand_by();
  } else {
    sleep(served.deadline);
  }
  return true;
}

// Clears the flag after taking the ring and before the work that the kick asks for: a kick in between is
// covered by that work.
void WakeUp::take_kick() {
  if (kicked_.load() && sleeper_.take_ring()) kicked_.exchange(false);
}

Duty::Served WakeUp::serve(Duty& duty) {
  const PoliteGuard lock(lock_);
  Duty::Served served = duty.serve(arrivals_);
  arrivals_.clear();
  if (holds_answers(served.now, Caller::kThread))
    served.deadline = std::min(served.deadline, answers_.patience_ends());
  if (answers_.replied_again() && !one_core_)
    served.deadline = std::min(served.deadline, served.now + kReplyWatch);
  wakes_at_ = served.deadline;
  return served;
}

void WakeUp::sleep(Instant deadline) {
  if (request_doorbells()) {
    const Sleeper::Woken woken = sleeper_.sleep(Sleeper::Watch::kEverything, deadline);
    control_ready_ |= woken.by_control;
    arrivals_.assign(woken.links.begin(), woken.links.end());
  }
  suppress_doorbells();
}

bool WakeUp::request_doorbells() {
  if (doorbells_ == nullptr) return true;
  const PoliteGuard lock(lock_);
  doorbells_requested_ = true;
  calls_while_requested_ = 0;
  return doorbells_->request();
}

void WakeUp::suppress_doorbells() {
  if (doorbells_ == nullptr) return;
  const PoliteGuard lock(lock_);
  if (!doorbells_requested_) return;
  doorbells_requested_ = false;
  doorbells_->suppress();
}

// ---- attending ----

// Polls until nothing has arrived for a while. Callers need not kick meanwhile: the thread serves before it
// sleeps.
void WakeUp::attend(Duty& duty) {
  attending_.store(true);
  Instant before = sleeper_.now(), end = before + Attention::kSpan;
  for (unsigned looks = 0; !called_away(looks); ++looks) {
    sleeper_.yield();  // first, because the woken program may wait for this core
    const Instant now = sleeper_.now();
    const bool found = look(duty);
    if (now - before > Attention::kYieldMost) {
      attention_.note_crowded(now);
      break;
    }
    if (found) {
      attention_.note_found();
      if (!armed_again() || !attention_.wanted(now)) break;
      end = now + Attention::kSpan;
    } else if (now >= end) {
      attention_.note_vain(now);
      break;
    }
    before = sleeper_.now();
  }
  attending_.store(false);
}

bool WakeUp::called_away(unsigned looks) {
  constexpr unsigned kLooksBetweenControls = 8;
  take_kick();  // it asks for the polling that follows
  if (stopping_.load()) return true;
  if (looks % kLooksBetweenControls != kLooksBetweenControls - 1) return false;
  control_ready_ |= sleeper_.sleep(Sleeper::Watch::kAllButLinks, sleeper_.now()).by_control;
  return control_ready_;
}

// The holder of the lock polls by itself.
bool WakeUp::look(Duty& duty) {
  const std::unique_lock lock(lock_, std::try_to_lock);
  return lock.owns_lock() && duty.look();
}

// True if a program has gone to sleep until an event since the last call.
bool WakeUp::armed_again() {
  const std::uint32_t armings = armings_.load();
  return std::exchange(armings_seen_, armings) != armings;
}

// ---- standing by ----

// Whether the program polls when something arrives can only be found out by trying. One that spins on its
// memory between polls does not, and packets are left waiting.
void WakeUp::begin_stand_by() {
  stands_by_since_ = sleeper_.now();
  tick_ = kFirstTick;
  standing_by_.store(true, std::memory_order_relaxed);
}

void WakeUp::end_stand_by(End why) {
  standing_by_.store(false, std::memory_order_relaxed);
  wakeups_ = 0;
  if (doorbells_ != nullptr) {
    const PoliteGuard lock(lock_);
    doorbells_->end_polling();
  }
  if (why == End::kCalledAway) return;
  const Instant left = sleeper_.now();
  pause_ = left - stands_by_since_ < kShortStay ? std::min(Duration{pause_.ns * 2}, kPauseMax) : kPauseMin;
  not_before_ = left + pause_;
}

// While the program polls, it handles deadlines. Returning for each would cost it the wake-ups and doorbell
// requests that standing by avoids.
void WakeUp::tick(Duty& duty) {
  const Duration span = std::exchange(tick_, kTick);
  const std::uint64_t before = calls_.load(std::memory_order_relaxed);
  const Sleeper::Woken woken = sleeper_.sleep(Sleeper::Watch::kAllButLinks, sleeper_.now() + span);
  control_ready_ |= woken.by_control;
  if (stopping_.load(std::memory_order_relaxed) || control_ready_) return end_stand_by(End::kCalledAway);
  if (woken.by_event) return end_stand_by(End::kNeeded);
  if (!program_is_calling(duty) &&
      sleeper_.now().ns - last_call_ns_.load(std::memory_order_relaxed) > kTardy.ns && serve(duty).received)
    return end_stand_by(End::kNeeded);
  const std::uint64_t calls = calls_.load(std::memory_order_relaxed) - before;
  if (calls < static_cast<std::uint64_t>(span.ns / kBetweenCalls.ns)) end_stand_by(End::kNeeded);
}

// The holder of the lock polls and publishes by itself: waiting for it would only take its core away.
bool WakeUp::program_is_calling(Duty& duty) {
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  duty.publish(sleeper_.now());
  if (doorbells_ != nullptr) doorbells_->announce_polling();
  return false;
}

}  // namespace rrdma::nic
