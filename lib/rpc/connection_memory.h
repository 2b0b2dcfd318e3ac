// The memory that one connection may make this end hold. ReceivedMemory: what the peer has sent and the
// application has not consumed. Transfers: what this end has sent and the peer has not taken. Each has a
// limit of its own, so that a peer that takes nothing can still send, and the reverse.
#pragma once

#include <cstddef>

#include "rrdma/comm/comm.h"
#include "rrdma/comm/ref.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// Waits for an event in a list; its signal is then given.
struct SignalWaiter : comm::detail::Link {
  explicit SignalWaiter(comm::Signal& given) : signal(&given) {}
  comm::Signal* signal;
};

class ReceivedMemory {
 public:
  // `others`: a pool that counts against the same limit; it outlives this object. Null if there is none.
  void limit(std::size_t octets, const comm::Pool* others = nullptr) {
    limit_ = octets;
    others_ = others;
  }
  [[nodiscard]] bool take(std::size_t octets) {
    const std::size_t used = held_ + (others_ != nullptr ? others_->in_use() : 0);
    if (used > limit_ || octets > limit_ - used) return false;
    held_ += octets;
    return true;
  }
  void give_back(std::size_t octets) { held_ -= octets; }
  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  std::size_t limit_ = ~std::size_t{0};
  const comm::Pool* others_ = nullptr;
  std::size_t held_ = 0;
};

// Counted, because messages may complete after their line is gone.
class Transfers final : public comm::detail::Counted {
 public:
  void limit(std::size_t octets) { limit_ = octets; }
  [[nodiscard]] std::size_t limit() const { return limit_; }
  void add(std::size_t octets) { octets_ += octets; }
  void remove(std::size_t octets) {
    octets_ -= octets;
    pass_on();
  }
  [[nodiscard]] std::size_t octets() const { return octets_; }
  // Nothing that may add to it should start now.
  [[nodiscard]] bool full() const { return octets_ >= limit_; }
  // Gives the waiter's signal when it is not full. The waiter must then call pass_on().
  void await_room(SignalWaiter& waiter) { waiting_.push_back(&waiter); }
  // Wakes one waiter at a time, so that each sees what the one before has added.
  void pass_on() {
    if (full()) return;
    if (SignalWaiter* waiter = waiting_.pop_front()) waiter->signal->give();
  }

 private:
  std::size_t limit_ = ~std::size_t{0};
  std::size_t octets_ = 0;
  comm::detail::List<SignalWaiter> waiting_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
