// Endpoint: one reliable connection to a peer, and its operations. Message: a received message, on loan.
//
// Operations on one endpoint are posted in the order in which they were begun, and the peer sees their effects in that order,
// except that a read or an atomic operation may still be under way when a later one begins (fenced() holds that one back).
// A send waits until the peer has room (credits), so that a receiver is never overrun; everything after it waits
// behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rrdma/comm/buffer.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/visibility.h"
#include "rrdma/comm/window.h"

namespace rrdma::comm {
inline namespace v0 {

class Endpoint;

namespace detail {
class EndpointState;
struct ReceiveSlot;
struct Posting;

// Who waits for a connection to come up.
class Opener {
 public:
  virtual void opened() = 0;
  virtual void not_opened(Error error) = 0;

 protected:
  ~Opener() = default;
};
}  // namespace detail

// What both ends agree on when they connect: numbers only, each end says its own.
struct Profile {
  std::uint32_t message_limit = 4096;  // octets of the largest message that this end receives
  std::uint16_t receive_depth = 64;  // messages that this end can hold: the credits that it gives; at least 4
  std::uint16_t send_depth = 64;     // requests under way at a time; at least 4
  std::uint8_t rnr_retry = 0;  // credits make "receiver not ready" impossible, so it need not be retried
  std::uint8_t retry = 7;      // times that the transport tries again before it gives the peer up
  std::uint8_t reads = 16;  // reads and atomic operations under way at a time; less where the device has less
  // Octets for the application in the connection request or in its answer; copied by the call.
  std::span<const std::byte> hello = {};
  // A silent peer is asked whether it is still there after this long; none: only when something is sent to it.
  std::chrono::milliseconds keep_alive{0};
};

// Octets of Profile::hello at most, in a request.
inline constexpr std::size_t kMaxHelloRequest = 40;
// The same in an answer.
inline constexpr std::size_t kMaxHelloAnswer = 180;

// What has happened on an Endpoint since it was connected.
struct EndpointCounters {
  std::uint64_t messages_sent = 0, octets_sent = 0;
  std::uint64_t messages_received = 0, octets_received = 0;
  std::uint64_t reads = 0, writes = 0, atomics = 0;
  std::uint64_t credit_messages_sent = 0, credit_messages_received = 0;
  std::uint64_t waits_for_credit = 0;  // operations that had to wait for the peer
  std::uint64_t waits_for_queue = 0;   // operations that had to wait for our own send queue
  std::uint64_t inlined = 0;           // sends whose octets went with the request itself
  std::uint64_t keep_alives = 0;
};

// A message on loan: its destructor gives the memory back to the connection and thereby a credit to the peer. Who keeps
// messages slows the peer down, nobody else.
class RRDMA_COMM_API Message {
 public:
  Message() = default;
  Message(Message&& other) noexcept
      : endpoint_(std::move(other.endpoint_)), slot_(std::exchange(other.slot_, nullptr)) {}
  Message& operator=(Message&& other) noexcept {
    if (this != &other) {
      release();
      endpoint_ = std::move(other.endpoint_);
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~Message() {
    if (slot_ != nullptr) release();
  }

  explicit operator bool() const { return slot_ != nullptr; }
  [[nodiscard]] std::span<std::byte> bytes();
  [[nodiscard]] std::span<const std::byte> bytes() const { return const_cast<Message*>(this)->bytes(); }
  [[nodiscard]] std::size_t size() const { return bytes().size(); }
  [[nodiscard]] std::string_view text() const {
    const auto octets = bytes();
    return {reinterpret_cast<const char*>(octets.data()), octets.size()};
  }
  // A copy of its first octets as a T. REQUIRES: size() >= sizeof(T).
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T as() const {
    const auto octets = bytes();
    if (octets.size() < sizeof(T))
      detail::broken_contract("Message::as of a type that is larger than the message");
    T value;
    std::memcpy(&value, octets.data(), sizeof(T));
    return value;
  }
  // The number that came with a write with immediate; such a message has no octets of its own.
  [[nodiscard]] std::optional<std::uint32_t> immediate() const;
  // The same message on loan a second time: its memory goes back with the last of them.
  [[nodiscard]] Message share() const;

 private:
  friend class Receiving;
  friend class detail::EndpointState;
  Message(detail::Ref<detail::EndpointState> endpoint, detail::ReceiveSlot* slot);
  void release() noexcept;

  detail::Ref<detail::EndpointState> endpoint_;
  detail::ReceiveSlot* slot_ = nullptr;
};

namespace detail {

enum class Verb : std::uint8_t { kSend, kWrite, kWriteImmediate, kRead, kCompareSwap, kFetchAdd, kBind };

// A request for the send queue, with the memory that it owns.
class RRDMA_COMM_API Transfer : public Operation {
 protected:
  Transfer(const Ref<EndpointState>& endpoint, Verb verb, During during, Buffer buffer, Limit limit);
  Transfer(Transfer&& other) noexcept;
  ~Transfer() override;

  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;
  [[nodiscard]] WindowHandle take_window();

  friend class EndpointState;
  friend struct Posting;

  Ref<EndpointState> endpoint_;
  Posting* posting_ = nullptr;
  Buffer buffer_;
  std::span<const std::byte> octets_;  // what is sent when it is not in buffer_: copied when it is begun
  std::uint64_t remote_address_ = 0;
  std::uint32_t remote_key_ = 0;
  std::uint32_t immediate_ = 0;
  std::uint32_t length_ = 0;  // of a read; otherwise the buffer's size counts
  std::uint64_t operand_ = 0;
  std::uint64_t swap_ = 0;
  std::uint64_t answer_ = 0;
  Ref<Counted> kept_;  // what else must live until the device is done: a memory window
  Verb verb_;
  bool fenced_ = false;
  bool waited_ = false;
};

// Adds fenced() to a final class of transfers.
template <typename Self>
class Fenceable : public Transfer {
 public:
  // It begins only after the reads and atomic operations before it are complete.
  Self&& fenced() && {
    fenced_ = true;
    return static_cast<Self&&>(*this);
  }

 protected:
  using Transfer::Transfer;
};

}  // namespace detail

// A send, write or read of a Buffer; the result is the Buffer again.
class RRDMA_COMM_API Transferring final : public detail::Fenceable<Transferring> {
 public:
  Result<Buffer> await_resume();

 private:
  friend class Endpoint;
  using Fenceable::Fenceable;
};

// A send of octets that are copied when it is begun.
class RRDMA_COMM_API Copying final : public detail::Fenceable<Copying> {
 public:
  Result<void> await_resume();

 private:
  friend class Endpoint;
  using Fenceable::Fenceable;
};

// An atomic operation; the result is what was there before.
class RRDMA_COMM_API Exchanging final : public detail::Fenceable<Exchanging> {
 public:
  Result<std::uint64_t> await_resume();

 private:
  friend class Endpoint;
  using Fenceable::Fenceable;
};

// The read of one object; the result is a copy of it.
template <typename T>
class Fetching final : public detail::Fenceable<Fetching<T>> {
 public:
  Result<T> await_resume() {
    this->require_done();
    if (this->failed()) return this->take_failure();
    T value;
    std::memcpy(&value, this->buffer_.data(), sizeof(T));
    return value;
  }

 private:
  friend class Endpoint;
  using detail::Fenceable<Fetching<T>>::Fenceable;
};

// The opening of a memory window; the result is the Window.
template <typename T>
class Lending final : public detail::Fenceable<Lending<T>> {
 public:
  Result<Window<T>> await_resume() {
    this->require_done();
    if (this->failed()) return this->take_failure();
    return Window<T>(this->take_window(), memory_);
  }

 private:
  friend class Endpoint;
  using detail::Fenceable<Lending<T>>::Fenceable;
  std::span<T> memory_;
};

// Awaits the next Message.
class RRDMA_COMM_API Receiving final : public Operation {
 public:
  Receiving(Receiving&&) noexcept = default;
  ~Receiving() override;
  Result<Message> await_resume();

 private:
  friend class Endpoint;
  friend class detail::EndpointState;
  Receiving(const detail::Ref<detail::EndpointState>& endpoint, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;

  detail::Ref<detail::EndpointState> endpoint_;
  Message message_;
};

// Waits for the end of a connection.
class RRDMA_COMM_API Settling final : public Operation {
 public:
  Settling(Settling&&) noexcept = default;
  ~Settling() override;
  Result<void> await_resume();

 private:
  friend class Endpoint;
  friend class detail::EndpointState;
  Settling(const detail::Ref<detail::EndpointState>& endpoint, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;

  detail::Ref<detail::EndpointState> endpoint_;
};

// One end of a reliable connection. Move-only. Belongs to its context's thread for life; see Incoming for how another thread gets it. Its
// destructor closes gracefully in the background (what was sent still arrives while the context is polled); close() waits for that,
// abort() does not.
class RRDMA_COMM_API Endpoint {
 public:
  Endpoint();
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  ~Endpoint();
  explicit operator bool() const { return static_cast<bool>(state_); }

  // Sends a message; the result is the buffer again, once the device has read it. Delivery follows in order; flush() and close() wait for it.
  [[nodiscard]] Transferring send(Buffer message, Limit limit = {});
  // The same with a copy of these octets, which is made when the send is begun: by awaiting it or by start(). They must be there until then.
  [[nodiscard]] Copying send(std::span<const std::byte> octets, Limit limit = {});
  [[nodiscard]] Copying send(std::string_view text, Limit limit = {}) {
    return send(std::as_bytes(std::span<const char>(text.data(), text.size())), std::move(limit));
  }
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_convertible_v<const T&, std::string_view> &&
           !std::is_convertible_v<const T&, std::span<const std::byte>>) [[nodiscard]] Copying
      send(const T& object, Limit limit = {}) {
    return send(std::as_bytes(std::span<const T, 1>(&object, 1)), std::move(limit));
  }

  // Sends a copy of these octets if it can go at once: with the request itself (inline_limit()), when neither the peer's credits nor our own send queue make
  // it wait. False: nothing was sent; send() would wait, or say what is wrong.
  [[nodiscard]] bool try_send(std::span<const std::byte> octets);
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_convertible_v<const T&, std::span<const std::byte>>)
      [[nodiscard]] bool try_send(const T& object) {
    return try_send(std::as_bytes(std::span<const T, 1>(&object, 1)));
  }

  // The next message, in the order in which the peer sent them.
  [[nodiscard]] Receiving receive(Limit limit = {});
  // The same if one is there already; otherwise an empty Message, also when none will ever come: receive() says that.
  [[nodiscard]] Message try_receive();

  // Writes the buffer to the beginning of `to`; kTooLarge when it does not fit.
  template <typename T>
  [[nodiscard]] Transferring write(Buffer from, RemoteSpan<T> to, Limit limit = {}) {
    static_assert(!std::is_const_v<T>, "the peer opened this memory for reading only");
    return write_bytes(std::move(from), to.as_bytes(), std::nullopt, std::move(limit));
  }
  // The same, and the peer receives a Message with this number once the octets are in place. Takes a credit.
  template <typename T>
  [[nodiscard]] Transferring write(Buffer from, RemoteSpan<T> to, std::uint32_t immediate, Limit limit = {}) {
    static_assert(!std::is_const_v<T>, "the peer opened this memory for reading only");
    return write_bytes(std::move(from), to.as_bytes(), immediate, std::move(limit));
  }
  // Reads all of `from` into the buffer, which is resized to it; kTooLarge when its capacity is less.
  template <typename T>
  [[nodiscard]] Transferring read(RemoteSpan<T> from, Buffer into, Limit limit = {}) {
    return read_bytes(RemoteSpan<const std::byte>(from.as_bytes()), std::move(into), std::move(limit));
  }
  // Reads one object.
  template <typename T>
  [[nodiscard]] Fetching<std::remove_const_t<T>> read(RemoteRef<T> from, Limit limit = {}) {
    Fetching<std::remove_const_t<T>> fetching(state_checked(), detail::Verb::kRead, During::kRead,
                                              scratch(sizeof(T)), std::move(limit));
    fetching.remote_address_ = from.address();
    fetching.remote_key_ = from.key();
    fetching.length_ = sizeof(T);
    return fetching;
  }
  // If *where == expected, *where = desired; what was there before.
  [[nodiscard]] Exchanging compare_swap(RemoteRef<std::uint64_t> where, std::uint64_t expected,
                                        std::uint64_t desired, Limit limit = {});
  // *where += value; what was there before.
  [[nodiscard]] Exchanging fetch_add(RemoteRef<std::uint64_t> where, std::uint64_t value, Limit limit = {});

  // Opens memory to this peer alone, for as long as the Window lives; see Window, and Share for every peer. The caller owns the memory, which
  // must outlive the Window.
  template <typename T>
  [[nodiscard]] Lending<T> lend(std::span<T> memory, Access access, Limit limit = {}) {
    Lending<T> lending(state_checked(), detail::Verb::kBind, During::kShare, Buffer(), std::move(limit));
    lending.memory_ = memory;
    lending.remote_address_ = reinterpret_cast<std::uintptr_t>(memory.data());
    lending.operand_ = memory.size_bytes();
    lending.immediate_ = static_cast<std::uint32_t>(access);
    return lending;
  }

  // Waits until the peer's device has acknowledged everything that was begun before.
  [[nodiscard]] Copying flush(Limit limit = {});
  // Begins nothing new, waits until everything sent has arrived and the peer was told, and ends the connection.
  [[nodiscard]] Settling close(Limit limit = {});
  // Ends the connection now. Every waiter resumes with kClosed; memory comes back when the device has let it go.
  void abort();

  // Whether operations may be begun.
  [[nodiscard]] bool open() const;
  [[nodiscard]] std::string_view peer() const;
  [[nodiscard]] std::string_view local() const;
  // What the peer said in its Profile::hello.
  [[nodiscard]] std::span<const std::byte> hello() const;
  // Octets of the largest message that the peer takes.
  [[nodiscard]] std::size_t message_limit() const;
  // Octets of the largest message that goes with its request, so that its buffer is free at once.
  [[nodiscard]] std::size_t inline_limit() const;
  // Messages that the peer has room for now.
  [[nodiscard]] std::size_t credits() const;
  [[nodiscard]] const EndpointCounters& counters() const;

 private:
  friend class Connecting;
  friend class Accepting;
  explicit Endpoint(detail::Ref<detail::EndpointState> state);
  [[nodiscard]] const detail::Ref<detail::EndpointState>& state_checked() const {
    if (!state_) detail::broken_contract("an operation on an empty Endpoint");
    return state_;
  }
  [[nodiscard]] Buffer scratch(std::size_t size);
  [[nodiscard]] Transferring write_bytes(Buffer from, RemoteSpan<std::byte> to,
                                         std::optional<std::uint32_t> immediate, Limit limit);
  [[nodiscard]] Transferring read_bytes(RemoteSpan<const std::byte> from, Buffer into, Limit limit);

  detail::Ref<detail::EndpointState> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
