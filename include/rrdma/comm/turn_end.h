// TurnEnd: a call at the end of a turn of the context. What collects small things, to send them together, hangs on this.
#pragma once

#include "rrdma/comm/list.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;

namespace detail {
class Reactor;

// Something that wants a call at the end of the turn.
class Settler : public Link {
 public:
  virtual void settle() = 0;

 protected:
  ~Settler() = default;
};
}  // namespace detail

// Calls `ring(owner)` at the end of the present turn of Context::poll, when everybody who was ready has run; at the end of the next one where none is under way. Nothing is
// called after it was destroyed.
class RRDMA_COMM_API TurnEnd final : private detail::Settler {
 public:
  TurnEnd(Context& context, void (*ring)(void* owner), void* owner);
  ~TurnEnd();
  // Once, however often it is asked for before the call.
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
