// Error: what failed, in which operation, with whom, and what to do about it. Result<T>: a value or an Error. Errors are
// values; nothing in this library throws unless it is asked to (value_or_throw).
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

// What went wrong. `Error::detail` says more: an errno, a completion status (ibv_wc_status) or a reason of rdma_cm.
enum class Code : unsigned char {
  kNoDevice,      // no RDMA device, or none of that name
  kBadAddress,    // the text is no address, or the name is not known
  kUnreachable,   // nobody answers at that address
  kRefused,       // the peer refused, or nobody listens at that port
  kVersion,       // the peer speaks another version of this library's protocol, or not this protocol at all
  kClosed,        // this end was closed or aborted
  kClosedByPeer,  // the peer closed; everything it had sent was received
  kPeerGone,      // the peer vanished without closing
  kCancelled,     // a stop was requested
  kDeadline,      // the time was over
  kTooLarge,      // larger than what the peer takes, or than the buffer
  kNoMemory,      // the pool's limit is reached, or the system gave no memory
  kNotSupported,  // the device cannot do it
  kRemoteAccess,  // the peer's memory is not open for this operation, or was revoked
  kLocalAccess,   // our memory is not open for this operation
  kProtocol,      // the peer sent what this protocol does not allow
  kInvalid,       // the call itself is wrong
  kSystem,        // a call of the system or of verbs failed; see detail
};

// During what.
enum class During : unsigned char {
  kOpen,
  kConnect,
  kListen,
  kAccept,
  kSend,
  kReceive,
  kRead,
  kWrite,
  kAtomic,
  kClose,
  kTake,
  kShare,
  kBind,
  kJoin,
  kSleep,
  kCall,
};

// In a word or two: "peer gone".
[[nodiscard]] RRDMA_COMM_API std::string_view name_of(Code code);
// As it stands in Error::what: "receive".
[[nodiscard]] RRDMA_COMM_API std::string_view name_of(During during);

// What failed, in which operation, with whom, and what to do about it. A value; copies share their texts.
class RRDMA_COMM_API Error {
 public:
  Error() = default;
  Error(Code code, During during, int detail = 0) : code_(code), during_(during), detail_(detail) {}

  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] During during() const { return during_; }
  // An errno (kSystem, kNoMemory), an ibv_wc_status (kPeerGone, kRemoteAccess, kLocalAccess), an application's reason (kRefused); else 0.
  [[nodiscard]] int detail() const { return detail_; }
  // The peer's address, or what the caller asked for; empty when there is none.
  [[nodiscard]] std::string_view peer() const {
    return peer_ ? std::string_view(*peer_) : std::string_view();
  }
  [[nodiscard]] std::string_view note() const {
    return note_ ? std::string_view(*note_) : std::string_view();
  }

  // One sentence: "receive from 10.9.0.1:7000: the peer is gone (transport retry counter exceeded)".
  [[nodiscard]] std::string what() const;
  // What to do about it.
  [[nodiscard]] std::string_view remedy() const;

  Error&& with_peer(std::shared_ptr<const std::string> peer) && {
    peer_ = std::move(peer);
    return std::move(*this);
  }
  Error&& with_peer(std::string peer) && {
    return std::move(*this).with_peer(std::make_shared<const std::string>(std::move(peer)));
  }
  Error&& with_note(std::string note) && {
    note_ = std::make_shared<const std::string>(std::move(note));
    return std::move(*this);
  }

 private:
  Code code_ = Code::kInvalid;
  During during_ = During::kCall;
  int detail_ = 0;
  std::shared_ptr<const std::string> peer_;
  std::shared_ptr<const std::string> note_;
};

// What value_or_throw() throws.
class RRDMA_COMM_API Failure : public std::runtime_error {
 public:
  explicit Failure(Error error);
  ~Failure() override;
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

namespace detail {
// Ends the program with a sentence: a Result was asked for what it does not hold, or a contract was broken.
[[noreturn]] RRDMA_COMM_API void broken_contract(const char* what, const Error* error = nullptr);
[[noreturn]] RRDMA_COMM_API void throw_failure(Error error);
}  // namespace detail

// A value or an Error.
template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(); the program ends with the error's sentence otherwise.
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  T&& operator*() && { return std::move(checked()); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

  // The value, or Failure thrown.
  T value_or_throw() && {
    if (!ok()) detail::throw_failure(*std::get_if<1>(&state_));
    return std::move(*std::get_if<0>(&state_));
  }

  // REQUIRES: !ok().
  [[nodiscard]] const Error& error() const {
    if (ok()) detail::broken_contract("error() of a Result that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  T& checked() {
    if (!ok()) [[unlikely]]
      detail::broken_contract("value() of a Result that holds an error", std::get_if<1>(&state_));
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  void value() const {
    if (failed_) detail::broken_contract("value() of a Result that holds an error", &error_);
  }
  void value_or_throw() const {
    if (failed_) detail::throw_failure(error_);
  }
  [[nodiscard]] const Error& error() const {
    if (!failed_) detail::broken_contract("error() of a Result that holds a value");
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace v0
}  // namespace rrdma::comm
