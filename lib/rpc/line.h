// Line: one end of a connection that carries frames. Frames are sent in order, as far as the peer grants
// credits. Posting never waits. If the peer supports packs, the first frame of a turn is sent at once. The
// others are packed into one message, which is sent at the end of the turn or when it is full. While the peer
// itself sends packs, all frames are packed, because it does not wait for single answers. Readers bound the
// frames that cannot be sent: they stop receiving from a peer that accepts nothing (crowded()).
//
// On an encrypted connection each message is sealed as it is sent, with the number of messages before it. A
// message that is missing, repeated, moved, changed or from elsewhere does not open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "lib/rpc/connection_memory.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/offers.h"
#include "lib/rpc/sealing.h"
#include "rrdma/comm/comm.h"
#include "rrdma/comm/ref.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/frame_memory.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// The smallest initial window of a stream. An item travels in one frame if it fits into half of the window: a
// reader that has consumed everything can then always grant more.
inline constexpr std::uint32_t kLeastWindow = 16384;

// Leads to a line from operations that may outlive it.
struct LineRef final : comm::detail::Counted {
  explicit LineRef(Line& to) : line(&to) {}
  Line* line;  // null once the line is gone
};

class Line {
 public:
  // `version`: the protocol version of the connection.
  Line(comm::Context& context, comm::Endpoint endpoint, std::uint8_t version);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  [[nodiscard]] comm::Context& context() const { return *context_; }
  [[nodiscard]] comm::Endpoint& endpoint() { return endpoint_; }
  [[nodiscard]] bool packs() const { return packs_; }
  // The largest frame or pack that the peer accepts.
  [[nodiscard]] std::size_t frame_limit() const { return frame_limit_; }
  // Whether the server may send headers.
  [[nodiscard]] bool heads() const { return heads_; }
  // Encrypts everything from now on, in both directions.
  void encrypt(const SealKeys& keys);
  [[nodiscard]] bool encrypted() const { return seal_ != nullptr; }
  // The frame or pack in a message; decrypted in place. Empty if the peer did not send it.
  std::span<const std::byte> open(comm::Message& message);
  // Decrypts what was READ from a region. Returns false, with the connection aborted, if the peer did not
  // offer it.
  bool open(comm::Buffer& memory, std::uint64_t seal);
  // Whether a frame's regions are as this connection has them.
  [[nodiscard]] bool admits(const Frame& frame) const {
    if (!encrypted()) return !frame.has(flag::kSealed);
    return frame.has(flag::kSealed) == frame.has(flag::kOffered);
  }
  // Marks a frame that offers this region.
  void mark_offered(Frame& frame, const Region& region) const {
    constexpr std::uint8_t kBoth = flag::kOffered | flag::kSealed;
    frame.flags |= encrypted() ? kBoth : flag::kOffered;
    frame.offered = region;
  }
  // The bytes that an offered region takes in a frame.
  [[nodiscard]] std::size_t offer_head() const { return kRegionSize + (encrypted() ? kSealNumber : 0); }
  // The bytes of a region that are not its tag.
  [[nodiscard]] std::size_t plain_size(const Region& region) const {
    return region.length - (encrypted() ? kSealTag : 0);
  }
  // Whether results and items may be offered.
  [[nodiscard]] bool offering() const { return offering_; }
  // Whether a result or an item of this size is offered.
  [[nodiscard]] bool offered(std::size_t size) const { return offering_ && size >= Offers::kLeast; }
  [[nodiscard]] const comm::detail::Ref<LineRef>& reference() const { return reference_; }
  Offers& offers() { return offers_; }
  // Memory that holds what was received.
  ReceivedMemory& received() { return received_; }
  [[nodiscard]] const ReceivedMemory& received() const { return received_; }
  // Memory that holds what was sent.
  Transfers& transfers() { return *transfers_; }
  // Records whether the peer's message, about to be handled, has several frames.
  void heard(bool several) { eager_ = !several; }

  // Memory for a frame of this size. Empty on exhaustion; the connection is aborted.
  comm::Buffer frame(std::size_t size) {
    auto memory = context_->pool().take(size);
    if (memory) return std::move(*memory);
    endpoint_.abort();
    return {};
  }
  // The same for a frame that may be small. Returns false on exhaustion.
  bool frame(FrameMemory& memory, std::size_t size) {
    if (memory.take(context_->pool(), size)) return true;
    endpoint_.abort();
    return false;
  }
  // Sends a frame after all earlier ones.
  void post(comm::Buffer frame);
  void post(FrameMemory& frame);
  // Sends a frame without a body.
  void post(const Frame& head);
  // Writes into the peer's memory, before all frames posted later.
  void post(comm::Buffer octets, const Region& into);
  // Passes an item to its stream; null if the call is over. Returns false if the peer violated the protocol.
  bool deliver(Inbound* stream, const Frame& frame, const comm::Message& message);
  // The peer has taken what this end offered. Returns false if the peer violated the protocol.
  bool taken(const Frame& frame) { return offering_ && offers_.taken(frame.address); }
  // Tells the peer that this end needs an offered region no longer.
  void give_back(std::uint64_t address);
  // Closes the connection once everything posted has arrived.
  void close();

  [[nodiscard]] bool crowded() const { return unsent_->count > kMostUnsent; }
  // Whether streams must wait: what was not sent also counts against the memory of the connection.
  [[nodiscard]] bool full() const { return crowded() || unsent_->octets >= transfers_->limit(); }
  // Gives the waiter's signal when enough frames were sent, or were lost with the connection.
  void await_sent(SignalWaiter& waiter) { unsent_->waiting.push_back(&waiter); }
  // Waits until the line is not crowded. Returns false if the connection is over.
  comm::Task<bool> until_sent();

 private:
  static constexpr std::size_t kMostUnsent = 512;
  // The most frames in one message. With more, the peer would wait too long before it can handle the first.
  static constexpr std::size_t kMostPacked = 16;
  struct Unsent final : comm::detail::Counted {
    std::size_t count = 0;
    comm::detail::List<SignalWaiter> waiting;
    std::size_t octets = 0;
  };
  // Completion of a message.
  struct Sent {
    comm::detail::Ref<Unsent> unsent;
    comm::detail::Ref<Transfers> transfers;
    std::size_t octets;
    void operator()(const comm::Result<comm::Buffer>&) const {
      transfers->remove(octets);
      unsent->octets -= octets;
      if (--unsent->count > kMostUnsent / 2 || unsent->octets > transfers->limit() / 2) return;
      while (SignalWaiter* waiter = unsent->waiting.pop_front()) waiter->signal->give();
    }
  };

  // Appends a frame to the pack of this turn. Returns false if the frame must be sent now; no earlier frame
  // is pending then.
  bool pack(std::span<const std::byte> frame);
  bool begin_pack();
  void flush();
  void turn_ended();
  void send(comm::Buffer message);
  void send(std::span<const std::byte> message);
  void send_plain(comm::Buffer message);
  // Counts memory that leaves this end until it was sent.
  Sent sending(const comm::Buffer& memory);
  // A message in its sealed form. Empty on exhaustion; the connection is aborted.
  comm::Buffer sealed(std::span<const std::byte> message);

  struct Seal {
    explicit Seal(const SealKeys& keys)
        : out(keys.frames_out), in(keys.frames_in), offers_in(keys.offers_in) {}
    SealKey out, in, offers_in;
    std::uint64_t sent = 0, received = 0;
  };
  comm::Context* context_;
  comm::Endpoint endpoint_;
  std::unique_ptr<Seal> seal_;  // null: not encrypted
  bool packs_;
  bool heads_;
  bool offering_;
  std::size_t frame_limit_;
  comm::detail::Ref<LineRef> reference_;
  comm::detail::Ref<Transfers> transfers_;
  Offers offers_;
  ReceivedMemory received_;
  bool eager_ = true;       // the peer's last message was a single frame
  bool posted_ = false;     // in this turn
  comm::Buffer pending_;    // sent at the end of the turn: a pack, unless it holds only one frame
  std::size_t packed_ = 0;  // frames in pending_
  comm::TurnEnd turn_end_;
  comm::detail::Ref<Unsent> unsent_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
