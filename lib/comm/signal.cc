// Signal, Alarm and TurnEnd.
#include "rrdma/comm/signal.h"

#include <utility>

#include "lib/comm/reactor.h"
#include "rrdma/comm/context.h"
#include "rrdma/comm/turn_end.h"

namespace rrdma::comm {
inline namespace v0 {

Signal::Signal(Context& context, Limit limit, During during)
    : Operation(context.reactor(), during, std::move(limit)) {}

Result<void> Signal::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return {};
}

Alarm::Alarm(Context& context, void (*ring)(void* owner), void* owner)
    : reactor_(context.reactor()), ring_(ring), owner_(owner) {}
Alarm::~Alarm() { cancel(); }

void Alarm::set(Clock::time_point at) {
  cancel();
  reactor_->timers().set(this, at);
}
void Alarm::cancel() { reactor_->timers().cancel(this); }

TurnEnd::TurnEnd(Context& context, void (*ring)(void* owner), void* owner)
    : reactor_(context.reactor()), ring_(ring), owner_(owner) {}
TurnEnd::~TurnEnd() = default;
void TurnEnd::request() { reactor_->flush_later(this); }

}  // namespace v0
}  // namespace rrdma::comm
