// TurnEnd: a callback at the end of a turn of the context. Used to collect small items and send them
// together.
#pragma once

#include "rrdma/comm/list.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

namespace detail {
class Reactor;

// An object that requests a call at the end of the turn.
class Settler : public Link {
 public:
  virtual void settle() = 0;

 protected:
  ~Settler() = default;
};
}  // namespace detail

// Calls `ring(owner)` at the end of the current turn of Context::poll, after all ready coroutines have run.
// Outside a turn, the call happens at the end of the next one. Destroying the object cancels the call.
class RRDMA_COMM_API TurnEnd final : private detail::Settler {
 public:
  TurnEnd(Context& context, void (*ring)(void* owner), void* owner);
  ~TurnEnd();
  // Several requests before the call result in one call.
  void request();

 private:
  friend class detail::Reactor;
  template <typename T>
  friend class detail::List;
  void settle() override { ring_(owner_); }

  detail::Ref<detail::Reactor> reactor_;
  void (*ring_)(void*);
  void* owner_;
};

}  // namespace v0
}  // namespace rrdma::comm
