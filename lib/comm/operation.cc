// Operation: its life from start to completion, withdrawal or destruction.
#include "rrdma/comm/operation.h"

#include <utility>

#include "lib/comm/reactor.h"
#include "rrdma/comm/batch.h"

namespace rrdma::comm {
inline namespace v0 {

Operation::Operation(detail::Ref<detail::Reactor> reactor, During during, Limit limit)
    : reactor_(std::move(reactor)), during_(during), limit_(std::move(limit)) {}

Operation::Operation(Operation&& other) noexcept
    : reactor_(std::move(other.reactor_)), during_(other.during_), limit_(std::move(other.limit_)) {
  if (other.phase_ != Phase::kIdle) detail::broken_contract("an operation was moved after it had begun");
}

Operation::~Operation() = default;

void Operation::StopHook::operator()() const noexcept { operation->reactor_->request_stop(operation); }

Error Operation::error_for(Code code, int detail) const { return Error(code, during_, detail); }

void Operation::start() {
  if (phase_ != Phase::kIdle) detail::broken_contract("an operation was begun twice");
  reactor_->require_thread();
  phase_ = Phase::kWaiting;
  if (reactor_->closed()) return fail(Code::kClosed);
  if (limit_.stop().stop_requested()) return fail(Code::kCancelled);
  if (limit_.timed() && limit_.at() <= Clock::now()) return fail(Code::kDeadline);
  begin();
  if (phase_ == Phase::kWaiting) watch_limit();
}

void Operation::watch_limit() {
  if (limit_.timed()) reactor_->timers().set(this, limit_.at());
  if (limit_.stop().stop_possible()) stop_hook_.emplace(limit_.stop(), StopHook{this});
}

void Operation::complete() {
  unlink();
  if (Timer::set()) reactor_->timers().cancel(this);
  phase_ = Phase::kDone;
  if (batch_ != nullptr) {
    std::exchange(batch_, nullptr)->member_done(this);
  } else if (continuation_) {
    reactor_->make_ready(this);
  }
}

void Operation::fail(Error error) {
  failure_.emplace(std::move(error));
  complete();
}

void Operation::give_up(Code code) {
  if (phase_ != Phase::kWaiting) return;
  withdraw();
  // Withdrawing may complete the operation.
  if (phase_ == Phase::kWaiting) fail(code);
}

void Operation::leave() noexcept {
  if (phase_ == Phase::kWaiting) {
    withdraw();
    if (Timer::set()) reactor_->timers().cancel(this);
  }
  unlink();
  if (stop_hook_) {
    stop_hook_.reset();
    reactor_->inbox().remove(this);
  }
  phase_ = Phase::kIdle;
}

}  // namespace v0
}  // namespace rrdma::comm
