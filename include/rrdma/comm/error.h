// Error: the failure, the operation, the peer and the remedy. Result<T>: a value or an Error. Errors are
// values.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "rrdma/comm/result.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

// The kind of failure. `Error::detail` adds an errno, a completion status (ibv_wc_status) or an rdma_cm
// reason.
enum class Code : unsigned char {
  kNoDevice,      // no RDMA device, or none with that name
  kBadAddress,    // not a valid address, or an unknown name
  kUnreachable,   // no answer from that address
  kRefused,       // the peer refused, or nothing listens on that port
  kVersion,       // the peer uses another version of this library's protocol, or another protocol
  kClosed,        // this end was closed or aborted
  kClosedByPeer,  // the peer closed; everything it had sent was received
  kPeerGone,      // the peer vanished without closing
  kCancelled,     // a stop was requested
  kDeadline,      // the deadline passed
  kTooLarge,      // larger than the peer accepts, or than the buffer
  kNoMemory,      // the pool's limit is reached, or the system is out of memory
  kNotSupported,  // the device does not support it
  kRemoteAccess,  // the peer's memory does not permit this operation, or was revoked
  kLocalAccess,   // local memory does not permit this operation
  kProtocol,      // the peer violated the protocol
  kInvalid,       // invalid arguments or use
  kSystem,        // a system call or verbs call failed; see detail
  kInUse,         // another listener uses this address
};

// The operation that failed.
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

// A short name: "peer gone".
[[nodiscard]] RRDMA_COMM_API std::string_view name_of(Code code);
// The name as Error::what shows it: "receive".
[[nodiscard]] RRDMA_COMM_API std::string_view name_of(During during);

class Error;

namespace detail {
[[noreturn]] RRDMA_COMM_API void throw_failure(Error error);
}  // namespace detail

// The failure, the operation, the peer and the remedy. A value; copies share their texts.
class RRDMA_COMM_API Error {
 public:
  Error() = default;
  Error(Code code, During during, int detail = 0) : code_(code), during_(during), detail_(detail) {}

  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] During during() const { return during_; }
  // An errno (kSystem, kNoMemory), an ibv_wc_status (kPeerGone, kRemoteAccess, kLocalAccess), or the
  // application's reason (kRefused). Otherwise 0.
  [[nodiscard]] int detail() const { return detail_; }
  // The peer's address, or the address that the caller asked for. May be empty.
  [[nodiscard]] std::string_view peer() const {
    return peer_ ? std::string_view(*peer_) : std::string_view();
  }
  [[nodiscard]] std::string_view note() const {
    return note_ ? std::string_view(*note_) : std::string_view();
  }

  // One sentence: "receive from 10.9.0.1:7000: the peer is gone (transport retry counter exceeded)".
  [[nodiscard]] std::string what() const;
  // A suggestion how to fix the problem.
  [[nodiscard]] std::string_view remedy() const;
  // Throws Failure.
  [[noreturn]] void raise() const;

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

// The exception that raise() and value_or_throw() throw.
class RRDMA_COMM_API Failure : public std::runtime_error {
 public:
  explicit Failure(Error error);
  ~Failure() override;
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

namespace detail {
// Prints a message and aborts the program. Called for a broken contract.
[[noreturn]] RRDMA_COMM_API void broken_contract(const char* what, const Error* error = nullptr);
}  // namespace detail

inline void Error::raise() const { detail::throw_failure(*this); }

// A value or an Error.
template <typename T>
using Result = BasicResult<T, Error>;

}  // namespace v0
}  // namespace rrdma::comm
