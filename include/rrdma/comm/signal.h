// Signal: something that one coroutine awaits and that others of the same thread give, once. Alarm: a call at a point in time. What
// protocols on top of this library are made of.
#pragma once

#include "rrdma/comm/limit.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/timer.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

// Who awaits it goes on when it was given, before or after; or when the limit is reached.
class RRDMA_COMM_API Signal final : public Operation {
 public:
  explicit Signal(Context& context, Limit limit = {}, During during = During::kCall);
  ~Signal() override { abandon(); }

  void give() {
    given_ = true;
    if (started() && !done()) complete();
  }
  [[nodiscard]] bool given() const { return given_; }
  Result<void> await_resume();

 private:
  void begin() override {
    if (given_) complete();
  }
  void withdraw() noexcept override {}
  bool given_ = false;
};

// Calls `ring(owner)` from Context::poll once its time has come, unless it was cancelled, set anew or destroyed before.
class RRDMA_COMM_API Alarm final : private detail::Timer {
 public:
  Alarm(Context& context, void (*ring)(void* owner), void* owner);
  ~Alarm() override;
  void set(Clock::time_point at);
  void cancel();

 private:
  void expire() override { ring_(owner_); }
  detail::Ref<detail::Reactor> reactor_;
  void (*ring_)(void*);
  void* owner_;
};

}  // namespace v0
}  // namespace rrdma::comm
