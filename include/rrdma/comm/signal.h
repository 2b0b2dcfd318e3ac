// Signal: a one-shot event between coroutines of one thread. Alarm: a callback at a point in time. Protocols
// on top of this library are built from them.
#pragma once

#include "rrdma/comm/limit.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/timer.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

// Completes when give() was called, before or after the await, or when the limit is reached.
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

// Calls `ring(owner)` from Context::poll at the given time, unless cancelled, set again or destroyed earlier.
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
