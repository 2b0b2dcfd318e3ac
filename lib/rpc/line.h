// Line: one end of a connection that carries frames. Frames leave in the order in which they are posted and as the peer gives credits; nobody waits
// for a frame. Where the peer knows packs, only the first one of a turn leaves at once, and the others together at its end, several in one message (or before,
// when that is full); all of them do so while the peer sends packs itself: then no single answer is waited for. What cannot leave is bounded by who reads: a reader stops listening to
// a peer that takes nothing (crowded()).
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "lib/rpc/frame.h"
#include "rrdma/comm/comm.h"
#include "rrdma/comm/ref.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/frame_memory.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// What the window of a stream is at first, at least: the largest item of one frame fits into half of it, so that a reader who has taken
// everything has always something to give back.
inline constexpr std::uint32_t kLeastWindow = 16384;

// Who waits until frames have left: its signal is given then.
struct SentWaiter : comm::detail::Link {
  explicit SentWaiter(comm::Signal& given) : signal(&given) {}
  comm::Signal* signal;
};

class Line {
 public:
  // `version`: what both ends speak.
  Line(comm::Context& context, comm::Endpoint endpoint, std::uint8_t version);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  [[nodiscard]] comm::Context& context() const { return *context_; }
  [[nodiscard]] comm::Endpoint& endpoint() { return endpoint_; }
  [[nodiscard]] bool packs() const { return packs_; }
  // A message of the peer is about to be read: whether it has several frames.
  void heard(bool several) { eager_ = !several; }

  // Memory for a frame of this size; none: there is none, and the connection ends of it.
  comm::Buffer frame(std::size_t size) {
    auto memory = context_->pool().take(size);
    if (memory) return std::move(*memory);
    endpoint_.abort();
    return {};
  }
  // The same where it may be small. False: there is none.
  bool frame(FrameMemory& memory, std::size_t size) {
    if (memory.take(context_->pool(), size)) return true;
    endpoint_.abort();
    return false;
  }
  // Sends a frame behind those before it.
  void post(comm::Buffer frame);
  void post(FrameMemory& frame);
  // The same for one without a body.
  void post(const Frame& head);
  // A write into the peer's memory, before the frames that are posted later.
  void post(comm::Buffer octets, const Region& into);
  // Ends the connection once everything posted has arrived.
  void close();

  [[nodiscard]] bool crowded() const { return unsent_->count > kMostUnsent; }
  // The waiter's signal is given when enough frames have left, or were lost with the connection.
  void await_sent(SentWaiter& waiter) { unsent_->waiting.push_back(&waiter); }
  // Until then. False: the connection is over.
  comm::Task<bool> until_sent();

 private:
  static constexpr std::size_t kMostUnsent = 512;
  // Frames in one message: with more of them the peer would have to wait for the last before it begins with the first.
  static constexpr std::size_t kMostPacked = 16;
  struct Unsent final : comm::detail::Counted {
    std::size_t count = 0;
    comm::detail::List<SentWaiter> waiting;
  };
  // What is called when a message has left.
  struct Sent {
    comm::detail::Ref<Unsent> unsent;
    void operator()(const comm::Result<comm::Buffer>&) const {
      if (--unsent->count > kMostUnsent / 2) return;
      while (SentWaiter* waiter = unsent->waiting.pop_front()) waiter->signal->give();
    }
  };

  // Puts a frame behind those that wait for the end of the turn. False: it is to be sent now, and nothing waits before it.
  bool pack(std::span<const std::byte> frame);
  bool begin_pack();
  void flush();
  void turn_ended();
  void send(comm::Buffer message);
  void send(std::span<const std::byte> message);

  comm::Context* context_;
  comm::Endpoint endpoint_;
  bool packs_;
  bool eager_ = true;       // the peer's last message was a single frame
  bool posted_ = false;     // in this turn
  comm::Buffer pending_;    // what leaves at the end of the turn: a pack, unless it has but one frame
  std::size_t packed_ = 0;  // frames in it
  comm::TurnEnd turn_end_;
  comm::detail::Ref<Unsent> unsent_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
