// Endpoint: one reliable connection to a peer, and its operations. Message: a received message.
//
// The operations of an endpoint are posted in the order in which they start. The peer sees their effects in
// that order, with one exception: a read or an atomic operation may still be in flight when a later operation
// takes effect. fenced() prevents that. A send waits until the peer has room for it (credits), so a receiver
// is never overrun. Operations behind a waiting send wait as well.
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

// Waits for a connection to be established.
class Opener {
 public:
  virtual void opened() = 0;
  virtual void not_opened(Error error) = 0;

 protected:
  ~Opener() = default;
};
}  // namespace detail

// The parameters of one end of a connection. Both ends exchange them when they connect.
struct Profile {
  std::uint32_t message_limit = 4096;  // bytes of the largest message that this end receives
  std::uint16_t receive_depth = 64;    // receive buffers, and thus credits for the peer; at least 4
  std::uint16_t send_depth = 64;       // requests in flight at a time; at least 4
  std::uint8_t rnr_retry = 0;          // credits rule out "receiver not ready", so no retries are needed
  std::uint8_t retry = 7;              // retransmissions before the transport gives up
  std::uint8_t reads = 16;             // reads and atomics in flight at a time; limited by the device
  // Application data for the connection request or the reply. The call copies it.
  std::span<const std::byte> hello = {};
  // Probe a silent peer at this interval. Its device answers, not its program, which may thus compute for
  // long. A peer that does not answer for this long again, at least a second, is gone. This includes a
  // stopped process (SIGSTOP): a program on RRDMA contains its device. A large request in flight extends the
  // wait, by 16 seconds for each MiB of the largest, because a slow link is no dead peer; the device may
  // report a dead peer earlier. A transfer that the peer began does not: if it READs large memory of this end
  // over a link of a few Mbit/s, choose a longer interval. If zero, only a send detects a dead peer.
  std::chrono::milliseconds keep_alive{0};
};

// The largest Profile::hello in a connection request, in bytes.
inline constexpr std::size_t kMaxHelloRequest = 40;
// The largest Profile::hello in a reply, in bytes.
inline constexpr std::size_t kMaxHelloAnswer = 180;

// Counters of an Endpoint since it was connected.
struct EndpointCounters {
  std::uint64_t messages_sent = 0, octets_sent = 0;
  std::uint64_t messages_received = 0, octets_received = 0;
  std::uint64_t reads = 0, writes = 0, atomics = 0;
  std::uint64_t credit_messages_sent = 0, credit_messages_received = 0;
  std::uint64_t waits_for_credit = 0;  // operations that waited for credits
  std::uint64_t waits_for_queue = 0;   // operations that waited for room in the send queue
  std::uint64_t inlined = 0;           // sends with inline data
  std::uint64_t keep_alives = 0;
};

// A received message. The destructor returns the memory to the connection, and thereby a credit to the peer.
// Keeping messages slows down this peer only.
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
  // A copy of the first bytes as a T. REQUIRES: size() >= sizeof(T).
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
  // The immediate value of a write with immediate. Such a message has no bytes.
  [[nodiscard]] std::optional<std::uint32_t> immediate() const;
  // A second reference to the message. The memory is returned with the last reference.
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

// A request for the send queue, and the memory that it owns.
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
  std::span<const std::byte> octets_;  // data to send that is not in buffer_; copied at the start
  std::uint64_t remote_address_ = 0;
  std::uint32_t remote_key_ = 0;
  std::uint32_t immediate_ = 0;
  std::uint32_t length_ = 0;  // of a read; other requests use the buffer's size
  std::uint64_t operand_ = 0;
  std::uint64_t swap_ = 0;
  std::uint64_t answer_ = 0;
  Ref<Counted> kept_;  // also kept until the device is done: a memory window
  Verb verb_;
  bool fenced_ = false;
  bool waited_ = false;
};

// Adds fenced() to a final class of transfers.
template <typename Self>
class Fenceable : public Transfer {
 public:
  // Delays this operation until all earlier reads and atomic operations are complete.
  Self&& fenced() && {
    fenced_ = true;
    return static_cast<Self&&>(*this);
  }

 protected:
  using Transfer::Transfer;
};

}  // namespace detail

// A send, write or read of a Buffer. The result is the Buffer.
class RRDMA_COMM_API Transferring final : public detail::Fenceable<Transferring> {
 public:
  Result<Buffer> await_resume();

 private:
  friend class Endpoint;
  using Fenceable::Fenceable;
};

// A send of bytes that are copied when it starts.
class RRDMA_COMM_API Copying final : public detail::Fenceable<Copying> {
 public:
  Result<void> await_resume();

 private:
  friend class Endpoint;
  using Fenceable::Fenceable;
};

// An atomic operation. The result is the previous value.
class RRDMA_COMM_API Exchanging final : public detail::Fenceable<Exchanging> {
 public:
  Result<std::uint64_t> await_resume();

 private:
  friend class Endpoint;
  using Fenceable::Fenceable;
};

// A read of one object. The result is a copy of it.
template <typename T>
class Fetching final : public detail::Fenceable<Fetching<T>> {
 public:
  Result<T> await_resume() {
    this->take_once();
    if (this->failed()) return this->take_failure();
    T value;
    std::memcpy(&value, this->buffer_.data(), sizeof(T));
    return value;
  }

 private:
  friend class Endpoint;
  using detail::Fenceable<Fetching<T>>::Fenceable;
};

// The binding of a memory window. The result is the Window.
template <typename T>
class Lending final : public detail::Fenceable<Lending<T>> {
 public:
  Result<Window<T>> await_resume() {
    this->take_once();
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

// Awaits the end of a connection.
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

// One end of a reliable connection. Move-only. Belongs to its context's thread for life; see Incoming for how
// to hand a connection to another thread. The destructor closes gracefully in the background: sent data still
// arrives while the context is polled. close() waits for that; abort() does not.
class RRDMA_COMM_API Endpoint {
 public:
  Endpoint();
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  ~Endpoint();
  explicit operator bool() const { return static_cast<bool>(state_); }

  // Sends a message. The result is the buffer, once the device has read it. Messages arrive in order; flush()
  // and close() wait for delivery.
  [[nodiscard]] Transferring send(Buffer message, Limit limit = {});
  // Sends a copy of these bytes. The copy is made when the send starts, by co_await or start(); the bytes
  // must stay valid until then.
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

  // Sends a copy of these bytes if it can be posted immediately as inline data (inline_limit()). Returns
  // false if nothing was sent; send() would then wait, or report the error.
  [[nodiscard]] bool try_send(std::span<const std::byte> octets);
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_convertible_v<const T&, std::span<const std::byte>>)
      [[nodiscard]] bool try_send(const T& object) {
    return try_send(std::as_bytes(std::span<const T, 1>(&object, 1)));
  }

  // Receives the next message, in the order in which the peer sent them.
  [[nodiscard]] Receiving receive(Limit limit = {});
  // Returns the next message if it has already arrived, otherwise an empty Message. The end of the connection
  // also yields an empty Message; only receive() reports it.
  [[nodiscard]] Message try_receive();

  // Writes the buffer to the start of `to`. Fails with kTooLarge if it does not fit.
  template <typename T>
  [[nodiscard]] Transferring write(Buffer from, RemoteSpan<T> to, Limit limit = {}) {
    static_assert(!std::is_const_v<T>, "the peer opened this memory for reading only");
    return write_bytes(std::move(from), to.as_bytes(), std::nullopt, std::move(limit));
  }
  // Writes the buffer, and the peer receives a Message with `immediate` once the bytes are in place. Takes a
  // credit.
  template <typename T>
  [[nodiscard]] Transferring write(Buffer from, RemoteSpan<T> to, std::uint32_t immediate, Limit limit = {}) {
    static_assert(!std::is_const_v<T>, "the peer opened this memory for reading only");
    return write_bytes(std::move(from), to.as_bytes(), immediate, std::move(limit));
  }
  // Reads all of `from` into the buffer and resizes the buffer to match. Fails with kTooLarge if the capacity
  // is less.
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
  // If *where == expected, sets *where = desired. The result is the previous value.
  [[nodiscard]] Exchanging compare_swap(RemoteRef<std::uint64_t> where, std::uint64_t expected,
                                        std::uint64_t desired, Limit limit = {});
  // Adds `value` to *where. The result is the previous value.
  [[nodiscard]] Exchanging fetch_add(RemoteRef<std::uint64_t> where, std::uint64_t value, Limit limit = {});

  // Opens memory to this peer alone, as long as the Window exists. See Window; see Share for access by every
  // peer. The caller owns the memory, which must outlive the Window. Memory of const objects can be opened
  // for reading only. Devices of the kernel pin lent memory for writing, whatever the peer may do, so they
  // refuse read-only pages, such as those of constants. Use share() for these.
  template <typename T>
  [[nodiscard]] Lending<T> lend(std::span<T> memory, Access access, Limit limit = {}) {
    Lending<T> lending(state_checked(), detail::Verb::kBind, During::kShare, Buffer(), std::move(limit));
    lending.memory_ = memory;
    lending.remote_address_ = reinterpret_cast<std::uintptr_t>(memory.data());
    lending.operand_ = memory.size_bytes();
    lending.immediate_ = static_cast<std::uint32_t>(access);
    lending.swap_ = std::is_const_v<T> ? 1 : 0;
    return lending;
  }

  // Waits until the peer's device has acknowledged all operations started so far.
  [[nodiscard]] Copying flush(Limit limit = {});
  // Starts no new operations, waits until all sent data has arrived and the peer knows of the close, and ends
  // the connection.
  [[nodiscard]] Settling close(Limit limit = {});
  // Ends the connection immediately. Every waiter resumes with kClosed. Memory is returned when the device
  // has released it.
  void abort();

  // Whether new operations may start.
  [[nodiscard]] bool open() const;
  [[nodiscard]] std::string_view peer() const;
  [[nodiscard]] std::string_view local() const;
  // The peer's Profile::hello.
  [[nodiscard]] std::span<const std::byte> hello() const;
  // The size of the largest message that the peer accepts, in bytes.
  [[nodiscard]] std::size_t message_limit() const;
  // The size of the largest message sent as inline data, in bytes. The buffer of such a message is free at
  // once.
  [[nodiscard]] std::size_t inline_limit() const;
  // The number of messages that the peer has room for now.
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
