// Inbound and Outbound: the two directions of a stream, without types. A window bounds the bytes in flight in
// each direction: a sender waits until the receiver's application has consumed enough. A slow stream thus
// cannot exhaust memory or block other calls of its connection.
//
// A large item is offered: it stays in the memory of its sender, and the receiver READs it when it has room.
// It reads ahead of its application, further if the application had to wait. A sender's offers are bounded.
//
// To an older peer a large item travels in pieces, and may exceed the window. Its pieces return their window
// as they are assembled, but only while no item waits to be read: a stream holds one such item at most.
//
// Items that were received or are being read count against the memory of the connection. A stream that would
// exceed it ends with kResourceExhausted, or waits if it has items of its own to be consumed first.
//
// Each stream of each call has its own object, which no other call uses. Readers and writers share it: after
// the end of their call they find it closed, and can never reach the call that has the slot next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rrdma/comm/context.h"
#include "rrdma/comm/ref.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/signal.h"
#include "rrdma/comm/task.h"
#include "rrdma/rpc/codec.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

class Line;
struct Frame;

// Holds the current waiter's signal.
class WaitPlace {
 public:
  class Stay {
   public:
    Stay(WaitPlace& place, comm::Signal& signal) : place_(&place), signal_(&signal) {
      place.signal_ = &signal;
    }
    Stay(const Stay&) = delete;
    // A later waiter may have taken the place.
    ~Stay() {
      if (place_->signal_ == signal_) place_->signal_ = nullptr;
    }

   private:
    WaitPlace* place_;
    comm::Signal* signal_;
  };
  void give() {
    if (signal_ != nullptr) signal_->give();
  }
  [[nodiscard]] bool taken() const { return signal_ != nullptr; }

 private:
  comm::Signal* signal_ = nullptr;
};

// The receiving side of a stream.
class RRDMA_RPC_API Inbound final : public comm::detail::Counted {
 public:
  // `window`: bytes that the peer may send initially.
  Inbound(Line& line, std::uint32_t call, std::uint32_t window, std::size_t max_item);
  ~Inbound() override;
  // The call is over: drops all items. Reads, the current one too, end with kCancelled.
  void close();

  // Returns the next item if one has arrived.
  std::optional<Payload> take();
  // True if the stream has ended and all its items were taken.
  [[nodiscard]] bool over() const { return ended_ && items_.empty(); }
  // The status of the stream once it is over.
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] comm::Context& context() const;
  WaitPlace& place() { return place_; }
  // Ends the stream, because the application could not decode an item.
  void refuse(Status status);

  // Returns false if the peer violated the protocol.
  bool arrive(const Frame& frame, const comm::Message& message);
  void end(Status status);

 private:
  struct Item {
    Payload payload;
    std::uint32_t cost;
    std::size_t held;  // bytes of the connection's memory
    comm::RemoteSpan<const std::byte> offered = {};
    std::uint64_t seal = 0;  // the number that it was encrypted with
    bool reading = false;
    std::size_t ahead = 0;  // bytes that were read ahead for it
    [[nodiscard]] bool here() const { return offered.empty(); }
  };
  // Completion of a READ.
  struct Landing;
  // Whether the next item is here.
  [[nodiscard]] bool ready() const { return !items_.empty() && items_.front().here(); }
  bool accept_offer(const Frame& frame, std::uint32_t cost);
  // Starts to read offered items, as far as there is room.
  void read_ahead();
  bool start_reading(Item& item, std::uint64_t number);
  // The connection is over: offered items cannot be read any more, however the stream ended.
  void lose();
  // The application waits for an item that is not here.
  void starve();
  bool keep(const Frame& frame, const comm::Message& message, std::uint32_t cost);
  bool assemble(const Frame& frame, std::uint32_t cost);
  // Takes bytes of the connection's memory. False if too few are left; the stream has then ended.
  bool hold(std::size_t octets);
  void let_go(std::size_t octets);
  void drop_all();
  void give_window();

  Line* line_;  // null once closed
  std::uint32_t call_;
  std::uint32_t window_;      // bytes in total
  std::uint32_t granted_;     // bytes that the peer may still send
  std::uint32_t owed_ = 0;    // bytes consumed but not yet granted to the peer
  std::uint32_t unpaid_ = 0;  // bytes of assembled pieces, withheld while items wait to be read
  std::size_t held_ = 0;      // bytes of the connection's memory
  std::size_t max_item_;
  std::string assembly_;
  std::size_t assembly_held_ = 0;  // of held_, for the assembly
  bool assembling_ = false;
  bool ended_ = false;
  Status status_;
  std::deque<Item> items_;
  WaitPlace place_;
  // Programs have the offsets of the members above compiled in.
  std::uint64_t first_ = 0;  // number of the first item in items_
  std::uint64_t next_ = 0;   // number of the first item that may have to be read
  std::size_t ahead_ = 0;    // bytes of items that are or were read, until the application takes them
  std::size_t reach_;        // how many of them there may be
};

// The sending side of a stream.
class RRDMA_RPC_API Outbound final : public comm::detail::Counted {
 public:
  Outbound(Line& line, std::uint32_t call, std::uint32_t window);
  ~Outbound() override;
  // The call is over. Writes, the current one too, end with kCancelled.
  void close();

  // An item in its own memory. If the item fits into one frame, there is room for the frame's header before
  // it.
  struct Item {
    comm::Buffer memory;
    bool framed = false;
    std::span<std::byte> room;
    Status failure;
  };
  Item prepare(std::size_t size);
  // Sends an item as far as the window allows. Completes when all of it is posted.
  static comm::Task<Status> send(comm::detail::Ref<Outbound> self, Item item, comm::Limit limit);
  // Ends the stream and notifies the peer.
  Status finish();

  // Returns false if the peer violated the protocol.
  bool widen(std::uint32_t more);
  // The peer has taken an offered item.
  void returned(std::size_t octets);
  void end(Status status);
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  // `offer`: bytes to be offered.
  [[nodiscard]] bool blocked(std::uint32_t cost, std::size_t offer) const;
  comm::Task<Status> wait_for_window(std::uint32_t cost, std::size_t offer, comm::Limit limit);
  static Status offer(const comm::detail::Ref<Outbound>& self, comm::Buffer memory);
  [[nodiscard]] Status why() const;

  Line* line_;  // null once closed
  std::uint32_t call_;
  std::uint64_t window_;
  bool ended_ = false;
  bool finished_ = false;
  Status status_;
  WaitPlace place_;
  std::size_t offered_ = 0;  // bytes that the peer has not taken yet
  std::size_t framed_;       // bytes of the largest item that travels in one frame
};

}  // namespace detail

// Reads the items of a stream in order. One reader at a time. After the call was cancelled, or its handler
// has ended, reads return nothing and the status is kCancelled.
template <typename T>
class Reader {
 public:
  explicit Reader(comm::detail::Ref<detail::Inbound> inbound) : inbound_(std::move(inbound)) {}

  // Awaits the next item. Returns nothing at the end of the stream or when the limit is reached; see
  // status().
  comm::Task<std::optional<T>> read(comm::Limit limit = {}) {
    for (;;) {
      std::optional<T> item;
      const Step step = next([&item]() -> T& { return item.emplace(); });
      if (step == Step::kItem) co_return std::move(item);
      if (step == Step::kOver) co_return std::optional<T>();
      comm::Signal signal(inbound_->context(), limit);
      const detail::WaitPlace::Stay stay(inbound_->place(), signal);
      auto waited = co_await signal;
      if (!waited) {
        status_ = waited.error();
        co_return std::optional<T>();
      }
    }
  }
  // The same into an item that exists already, whose memory is used again. Returns false at the end of the
  // stream or when the limit is reached: `while (co_await stream.read_into(item)) ...`.
  comm::Task<bool> read_into(T& item, comm::Limit limit = {}) {
    for (;;) {
      const Step step = next([&item]() -> T& { return item; });
      if (step != Step::kWait) co_return step == Step::kItem;
      comm::Signal signal(inbound_->context(), limit);
      const detail::WaitPlace::Stay stay(inbound_->place(), signal);
      auto waited = co_await signal;
      if (!waited) {
        status_ = waited.error();
        co_return false;
      }
    }
  }
  // The reason why read() returned nothing; good at the end of the stream.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  enum class Step { kItem, kOver, kWait };
  // Takes the next item if it has arrived. `place` gives the object for it.
  template <typename Place>
  Step next(const Place& place) {
    if (auto payload = inbound_->take()) {
      if (Codec<T>::decode(payload->bytes(), place())) return Step::kItem;
      inbound_->refuse(Status(Code::kInternal, "an item of the stream cannot be read"));
    }
    if (!inbound_->over()) return Step::kWait;
    status_ = inbound_->status();
    return Step::kOver;
  }
  comm::detail::Ref<detail::Inbound> inbound_;
  Status status_;
};

// Writes the items of a stream. One writer at a time. After the call was cancelled, or its handler has ended,
// writes fail with kCancelled.
template <typename T>
class Writer {
 public:
  explicit Writer(comm::detail::Ref<detail::Outbound> outbound) : outbound_(std::move(outbound)) {}

  // Copies the item immediately. Completes when the item is posted, which requires that the reader has room
  // for it.
  comm::Task<Status> write(const T& item, comm::Limit limit = {}) {
    auto encoded = outbound_->prepare(Codec<T>::size(item));
    if (encoded.failure.ok()) Codec<T>::encode(item, encoded.room);
    return detail::Outbound::send(outbound_, std::move(encoded), std::move(limit));
  }

 protected:
  comm::detail::Ref<detail::Outbound> outbound_;
};

}  // namespace v0
}  // namespace rrdma::rpc
